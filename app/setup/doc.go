// Package setup is what an administrator needs before and beside the running bot: the page that makes the App, and the doctor.
//
// The page is open to whoever has the token of the console, and binds an App to the bot once.
//
// The doctor finds out by doing what this machine, its settings and the App at GitHub can do, and says for each thing
// that is not right what to do about it. It must not change anything that outlives it, must not need a running bot, and
// must not show the value of a secret.
package setup
