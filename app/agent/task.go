package agent

import "time"

// Task is what the agent is asked to do, as GitHub had it when the work was asked for.
type Task struct {
	Repository  string // owner/name
	Issue       Issue
	Comments    []Comment // oldest first
	Requester   Person
	Instruction string    // the text behind /sandpiper run, if the request was a comment
	TriggeredAt time.Time // when the work was asked for, to the second as GitHub says it
	FollowUp    *FollowUp // nil in the first run
}

// Person is an author, and how the repository stands to them.
type Person struct {
	Login    string // empty: the account is gone
	Standing string // permission on the repository: admin, maintain, write, triage, read, none; empty: not known
	Bot      bool
}

// Issue is the issue that the task comes from. Title and Body are the text as of the trigger; the payload of the event that
// triggered has it. When the text was read later, EditedAt says when it was last edited: after the trigger, it is withheld.
type Issue struct {
	Number   int
	Title    string
	Body     string
	Author   Person
	URL      string
	EditedAt time.Time
}

// Comment is one comment on the issue.
type Comment struct {
	ID        int64
	Body      string
	Author    Person
	URL       string
	CreatedAt time.Time
	UpdatedAt time.Time // GitHub's updated_at, which an edit moves
	Withhold  string    // a reason of the caller to withhold it, such as "by Sandpiper itself"
}

// late says why a comment is not text as of the trigger; empty: it is. GitHub gives times in seconds: what was written in
// the second of the trigger may have come after it, so only the requester's own words of that second are taken.
func (t Task) late(c Comment) string {
	if t.TriggeredAt.IsZero() {
		return ""
	}
	own := c.Author.Login != "" && c.Author.Login == t.Requester.Login
	switch {
	case c.CreatedAt.After(t.TriggeredAt), c.CreatedAt.Equal(t.TriggeredAt) && !own:
		return "written after the work was asked for"
	case c.UpdatedAt.After(t.TriggeredAt), c.UpdatedAt.Equal(t.TriggeredAt) && !own:
		return "edited after the work was asked for"
	}
	return ""
}
