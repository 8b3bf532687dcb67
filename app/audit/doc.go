// Package audit is the record of what happened: append-only, and each record holds the hash of the one before it.
//
// The chain lies in the database, and a copy of it, line by line, in files beside the state. Verify finds a record that was
// removed, changed or moved. It cannot find a chain that was written anew from some record on to its end: for that, the number
// and hash of its head, which Verify gives, have to be kept where the bot cannot write, and given to it the next time.
//
// A record says who did what to which mission or run; it never holds a secret: every text in it goes through the redactor.
// The package must not decide anything, and must not call GitHub.
package audit
