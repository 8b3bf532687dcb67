// Package attacks tries to get out of sandboxes: a battery of small scripts, each of which does one thing that a boundary has to keep
// from having an effect, on every backend that this machine can run.
//
// The host judges. What a script prints is believed where it says that it got out, and never where it says that it did not: for
// that, the script must have run, to its end, and have written its workspace. Each attack is also made without a sandbox, as
// the user that sandboxes run as, and has to succeed there; otherwise it would be no attack.
//
// Nothing here does harm: files in temporary directories, a process, listeners on loopback, amounts a little above small limits.
package attacks
