// Package config reads the settings of the bot from its environment.
//
// Every setting is one field of Config with its variable, its default and its meaning beside it; the settings page of the
// documentation and `sandpiper doctor` are made from the same fields. All problems are reported at once, each with the
// name of the variable, what is wrong and how to set it.
//
// The package must not act on a setting, must not read anything but the environment and the key file that it names, and
// must not give the value of a secret to anybody who asks for a description.
package config
