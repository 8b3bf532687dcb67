// Package sandbox is the contract of an isolated workspace and the manager that keeps it.
//
// A sandbox belongs to one run of one mission. The manager makes it at a pinned base commit, lets commands run in it
// behind a boundary, lists what changed, and discards it once everything in it is recorded. States, records, locks and
// findings are done here once; a Backend gives only what differs: how a workspace is made, entered, read and removed.
//
// The package must not know GitHub, policies or agents, must not read configuration that a process in a sandbox could
// have written, and must not delete what it has not recorded.
package sandbox
