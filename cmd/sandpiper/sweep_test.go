package main

import (
	"fmt"
	"strings"
	"testing"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// TestLostDeliveriesAreFound has GitHub fail to deliver labels, while the bot is up and while it is down. Each becomes a
// mission all the same, once, and what arrived is not asked for again.
func TestLostDeliveriesAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.env = []string{"SANDPIPER_SWEEP_EVERY=1s"}
	w.start()
	arrived := w.openIssue("arrives", "")
	w.label("octavia", arrived)
	w.ended(arrived, "changed")

	dropped := w.openIssue("dropped", "")
	w.double.AddHookFault(github.HookFault{Kind: github.Drop, Event: "issues", Action: "labeled"})
	w.label("octavia", dropped)
	w.ended(dropped, "changed")

	w.bot.kill()
	down := w.openIssue("while it was down", "")
	w.label("rita", down)
	must(t, w.double.Flush(t.Context()))
	w.start()
	w.ended(down, "changed")
	if got := len(w.pulls()); got != 3 {
		t.Errorf("%d pull requests, want 3", got)
	}
	redelivered := 0
	for _, line := range strings.Split(w.bot.text(), "\n") {
		if strings.Contains(line, "delivery asked for again") {
			redelivered++
		}
	}
	// opened (ignored and not stored) and labeled of the one issue; nothing of the others
	if redelivered == 0 || redelivered > 4 {
		t.Errorf("%d deliveries were asked for again, want those that the bot missed", redelivered)
	}
}

// TestLabelWithoutDelivery has GitHub lose labels without a trace in its log, for longer than the bot was up.
func TestLabelWithoutDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.double.AddHookFault(github.HookFault{Kind: github.Lose, Times: -1})
	member, stranger, edited := w.openIssue("by a member", ""), 0, 0
	open := func(title string) int {
		issue, _, err := w.as("toby").Issues.Create(t.Context(), "acme", "calc", &gh.IssueRequest{Title: &title})
		must(t, err)
		return issue.GetNumber()
	}
	stranger, edited = open("by a reader"), open("edited after the label")
	for _, n := range []int{member, stranger, edited} {
		w.label("octavia", n)
	}
	n := 0
	w.until("the clock of GitHub has moved on", func() bool {
		n++
		text := fmt.Sprintf("something else entirely, version %d", n)
		issue, _, err := w.as("toby").Issues.Edit(t.Context(), "acme", "calc", edited, &gh.IssueRequest{Body: &text})
		must(t, err)
		events, _, err := w.as("octavia").Issues.ListIssueEvents(t.Context(), "acme", "calc", edited, nil)
		must(t, err)
		return issue.GetUpdatedAt().Time.Sub(events[len(events)-1].GetCreatedAt().Time).Seconds() > 1
	})
	w.start()
	w.ended(member, "changed")
	outcome, want := "changed", 2
	if !containers() { // a reader's text is refused there
		outcome, want = "blocked by policy", 1
	}
	w.ended(stranger, outcome)
	w.until("the edit is refused", func() bool { return w.said(edited, "has been changed since") })
	if got := len(w.pulls()); got != want {
		t.Errorf("%d pull requests, want %d", got, want)
	}
}

// TestGitHubWithoutADeliveryLog is told once; the bot works on.
func TestGitHubWithoutADeliveryLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.env = []string{"SANDPIPER_SWEEP_EVERY=1s"}
	must(t, w.double.AddFault(github.Fault{Path: "^/app/hook/deliveries", Status: 404, Times: -1}))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	if got := strings.Count(w.bot.text(), "has no log of deliveries"); got != 1 {
		t.Errorf("it is told %d times, want once", got)
	}
}
