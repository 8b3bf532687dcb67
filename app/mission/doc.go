// Package mission is the life of a mission: commands come in, steps of work go out, and each step can be run again.
//
// A mission is one request by a human for work on an issue or a pull request. Its steps are
//
//	issue   take → create → execute → inspect → verify → promote → report → archive → waiting
//	        … → promote → close                                           (what is suggested on a fork's pull request)
//	checks  take → create → verify → archive → waiting                    (of a pull request's head)
//	group   take → create → verify → close                                (of a merge queue's commit)
//
// and from each of them, when the work fails or a person ends it, close → ended. A step of an issue stands in the file of its name; the queue
// in admit.go, archive and close in end.go, waiting in followup.go. Those of pull requests and merge groups are in pulls.go, verify.go and group.go.
//
// The database says which step is next. A step writes what it did before the next one begins, finds what an earlier try
// of itself has made (a sandbox, a running agent, a branch, a comment), and may therefore be killed at any instruction and
// run again with the same outcome. The agent and the checks run under supervisors that outlive the bot; a tick only looks
// whether they are done.
//
// The payload of a webhook is a hint: state is read again at GitHub before anything is decided. The package must not trust
// text from an issue, a comment or a sandbox, and it has no code that approves or merges.
package mission
