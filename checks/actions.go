package checks

import (
	"slices"

	"github.com/google/go-github/v60/github"
)

// What the buttons of a check that did not pass ask for. GitHub takes three of them, with at most 20 characters as a label and as an
// identifier, and 40 as a description. Whoever presses one may be anybody who can read: the sender's permission has to be looked up.
const (
	ActionRetry = "retry" // run it again, as a new Check Run
	ActionFix   = "fix"   // send the failure to the agent
	ActionKeep  = "keep"  // keep what is recorded of its sandbox
)

var actions = []*github.CheckRunAction{
	{Identifier: ActionRetry, Label: "Run again", Description: "Run this check again on this commit"},
	{Identifier: ActionFix, Label: "Send to the agent", Description: "Start a round of work on this failure"},
	{Identifier: ActionKeep, Label: "Keep the sandbox", Description: "Keep the files it ran on for 90 days"},
}

// buttons are the actions that a result offers.
func buttons(res Result) (offered []*github.CheckRunAction) {
	if res.Conclusion == Success {
		return nil
	}
	for _, a := range actions {
		if slices.Contains(res.Actions, a.Identifier) {
			offered = append(offered, a)
		}
	}
	return offered
}
