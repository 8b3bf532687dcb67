package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// TestFixByComment: on the issue, on the pull request and on a line, by people with write access, and never on people's branches.
func TestFixByComment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, "cat /sandpiper/task.md >>seen.md", "cp /sandpiper/task.md seen3.md", "echo 1 >sum.txt")))
	w.start()
	issue, first := w.opened()
	n := first.GetNumber()
	w.say("toby", n, "/sandpiper fix everything")
	w.until("toby is refused", func() bool { return w.said(n, "Only people with write access") })
	w.say("rita", issue, "/sandpiper fix it in the issue")
	w.round(n, 2, "changed")
	w.say("rita", n, "/sandpiper fix\n/sandpiper status")
	w.round(n, 3, "changed")
	w.until("the status is told on the pull request", func() bool { return w.said(n, "mission `m-") })
	line, path, side, commit, body := 1, "sum.txt", "RIGHT", w.head(n), "Here.\n\n/sandpiper fix this line"
	_, _, err := w.as("rita").PullRequests.CreateComment(t.Context(), "acme", "calc", n, &gh.PullRequestComment{Path: &path, Line: &line, Side: &side, CommitID: &commit, Body: &body})
	must(t, err)
	w.round(n, 4, "changed")
	w.waits(4)
	if seen := w.fileAt(w.head(n), "seen.md"); !strings.Contains(seen, "it in the issue") {
		t.Errorf("the words are not given:\n%s", seen)
	}
	if got := w.fileAt(w.head(n), "sum.txt"); got != "1\n" {
		t.Errorf("sum.txt is %q", got)
	}
	if got := w.answers(n); len(got) != 1 || !strings.Contains(got[0], "changes these lines") {
		t.Errorf("answers %q", got)
	}
}

// TestFixOnAPersonsPullRequest is done on top of it: their branch is never pushed to, and its own policy counts for nothing.
func TestFixOnAPersonsPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, "echo 1 >sum.txt")))
	w.start()
	head := must1(w.double.Push("acme/calc", github.CommitOptions{Branch: "by-hand", Login: "octavia", Message: "by hand", Files: map[string]string{
		"x": "y", ".github/sandpiper.yml": "agent: sh nothing.sh\nchecks: []\n",
	}}))(t)
	theirs, _, err := w.as("octavia").PullRequests.Create(t.Context(), "acme", "calc", &gh.NewPullRequest{Title: gh.String("Mine"), Head: gh.String("by-hand"), Base: gh.String("main")})
	must(t, err)
	w.say("octavia", theirs.GetNumber(), "/sandpiper fix it")
	w.until("it is stacked", func() bool { return w.said(theirs.GetNumber(), "its result will be a pull request onto `by-hand`") })
	w.until("it is offered", func() bool { return len(w.pulls()) == 2 })
	stacked := w.pulls()[0]
	if body := stacked.GetBody(); stacked.GetBase().GetRef() != "by-hand" || stacked.GetHead().GetRef() == "by-hand" || stacked.GetUser().GetLogin() != w.app.BotLogin() ||
		!strings.Contains(body, fmt.Sprintf("On top of #%d", theirs.GetNumber())) || strings.Contains(body, "Closes #") {
		t.Errorf("onto %s from %s by %s:\n%s", stacked.GetBase().GetRef(), stacked.GetHead().GetRef(), stacked.GetUser().GetLogin(), body)
	}
	if diff := cmp.Diff([]string{"notes.txt", "sum.txt"}, w.filesOf(stacked.GetNumber())); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
	if got := must1(w.double.BranchHead("acme/calc", "by-hand"))(t); got != head {
		t.Errorf("the branch of a person was moved to %s", got)
	}
	w.gateIs(stacked.GetHead().GetSHA(), "in_progress")
	w.say("octavia", theirs.GetNumber(), "/sandpiper fix it once more")
	w.round(stacked.GetNumber(), 2, "changed")
	if got := w.fileAt(w.head(stacked.GetNumber()), "sum.txt"); got != "1\n" {
		t.Errorf("sum.txt is %q", got)
	}
	if got := must1(w.double.BranchHead("acme/calc", "by-hand"))(t); got != head {
		t.Errorf("the branch of a person was moved to %s", got)
	}
}
