// Package outcome is the one vocabulary of what became of a mission's work, and sorts errors into it.
//
// The comment, the pull request, the Check Run, the log, the metrics and the database all say these words. Whatever knows of an error
// that GitHub, git or a sandbox may answer with has its place in Class, so that one place says whether to try again and what a person
// can do. The package must not act on what it finds: it neither retries nor tells anybody.
package outcome

import "fmt"

// Outcome is what became of a mission's work, in the words that the comment, the log and the database share.
type Outcome string

// The outcomes.
const (
	Changed         Outcome = "changed"
	Checked         Outcome = "checked"
	NoChange        Outcome = "no change needed"
	GaveUp          Outcome = "gave up"
	BlockedByHost   Outcome = "blocked by host"
	BlockedByPolicy Outcome = "blocked by policy"
	BlockedByRule   Outcome = "blocked by rule"
	Cancelled       Outcome = "cancelled"
	OutOfBudget     Outcome = "out of budget"
	Infrastructure  Outcome = "infrastructure"
)

// Next says what a person can do after an outcome of work on an issue.
func (o Outcome) Next() string { return o.next("the issue", "`/sandpiper retry`", "the current base") }

// NextOnPull is Next after work on top of a person's pull request.
func (o Outcome) NextOnPull() string {
	return o.next("the pull request", "`/sandpiper fix [words]`", "its head")
}

func (o Outcome) next(where, again, from string) string {
	switch o {
	case Changed:
		return "Review the pull request. Merging is yours; the bot cannot."
	case Checked:
		return "The checks are on the pull request. A new push runs them again."
	case NoChange:
		return "Say more in " + where + " and " + again + ", or close it."
	case GaveUp:
		return "Add what is missing to " + where + ", then " + again + "."
	case BlockedByPolicy:
		return "Mend `.github/sandpiper.yml` on the default branch, then " + again + "."
	case BlockedByRule:
		return "Once that is changed: " + again + "."
	case Cancelled:
		return again + " starts again from " + from + "."
	case OutOfBudget:
		return "Raise the budget in `.github/sandpiper.yml` or make the task smaller, then " + again + "."
	default:
		return again + " tries again; if it stays so, ask the people who run this bot."
	}
}

// Ended is the error of a step that ends the mission's work, with a class and a sentence for people.
type Ended struct {
	Outcome Outcome
	Message string // for people
	Cause   error  // for the log
}

func (e *Ended) Error() string {
	if e.Cause == nil {
		return string(e.Outcome) + ": " + e.Message
	}
	return fmt.Sprintf("%s: %s: %v", e.Outcome, e.Message, e.Cause)
}

func (e *Ended) Unwrap() error { return e.Cause }

// End ends the work. The sentence goes on behind the outcome and a colon, and before a full stop.
func End(outcome Outcome, cause error, format string, args ...any) error {
	return &Ended{Outcome: outcome, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// BranchMoved begins the message of a round that found commits of others on the branch when it wanted to push.
const BranchMoved = "branch moved"

// Passing is an error that time mends.
type Passing string

func (p Passing) Error() string { return string(p) }
