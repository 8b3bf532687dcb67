// Package agent is how a coding agent's command line is run: what it is given, how it is called, and what it said.
//
// Hydrate writes what the agent is given into a directory that is mounted read-only beside the workspace, and a receipt
// of all that was given and withheld. A Profile turns an agent's name, or any command, into a command for a sandbox.
// A Parser reads the agent's output into events and, with the exit status, into an outcome.
//
// The package must not run anything, must not follow a link of a repository to the host, and must not believe the agent:
// an outcome says what the agent claims. What was changed is found by reading the workspace, never by asking.
package agent
