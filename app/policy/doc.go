// Package policy is what a repository says about agent work on it: the file .github/sandpiper.yml.
//
// It parses the file strictly and reports every problem at once, each with its line, column and a hint; it fills in
// defaults that work without a file; it explains what is in force and where that comes from; and it holds the JSON Schema
// for editors. Load reads the file at one pinned commit, so that a later push cannot change the rules of a running mission.
//
// The package must not act on what it reads: it opens no file of the host, runs nothing, and knows no sandbox. A policy is
// written by people with write access to the default branch; a path or a command in it is only ever used inside a sandbox.
package policy
