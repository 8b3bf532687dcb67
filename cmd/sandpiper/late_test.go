package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// drops has the next delivery of an event fail.
func (w *world) drops(event, action string) {
	w.double.AddHookFault(github.HookFault{Kind: github.Drop, Event: event, Action: action})
}

// nextSecond waits until GitHub's times, which are of whole seconds, say that what comes now is later.
func (w *world) nextSecond() {
	w.t.Helper()
	began := time.Now().Unix()
	w.until("a second has passed", func() bool { return time.Now().Unix() > began })
}

// toldNow asks GitHub to send what it could not, and gives what became of it.
func (w *world) toldNow(event, action string) (outcome string) {
	w.t.Helper()
	must(w.t, w.double.Flush(w.t.Context()))
	app := must1(w.double.AsApp(w.app.Slug))(w.t)
	log, _, err := app.Apps.ListHookDeliveries(w.t.Context(), &gh.ListCursorOptions{PerPage: 100})
	must(w.t, err)
	for _, d := range log {
		if d.GetEvent() != event || d.GetAction() != action || d.GetStatusCode() < 300 {
			continue
		}
		_, _, err := app.Apps.RedeliverHookDelivery(w.t.Context(), d.GetID())
		if accepted := (*gh.AcceptedError)(nil); err != nil && !errors.As(err, &accepted) {
			w.t.Fatal(err)
		}
		w.until("it was handled", func() bool {
			for line := range strings.Lines(w.bot.text()) {
				if strings.Contains(line, `"msg":"delivery handled"`) && strings.Contains(line, d.GetGUID()) {
					_, outcome, _ = strings.Cut(line, `"outcome":`)
					return true
				}
			}
			return false
		})
		return outcome
	}
	w.t.Fatalf("no delivery of %s %s has failed", event, action)
	return ""
}

// TestWhatIsUndoneIsNotObeyedLater: a delivery that failed is sent again when what it tells of is so no more.
func TestWhatIsUndoneIsNotObeyedLater(t *testing.T) {
	t.Parallel()
	state := func(s string) *gh.IssueRequest { return &gh.IssueRequest{State: &s} }
	for name, c := range map[string]struct {
		event, action string
		do, undo      func(*world, int) error
		want          string
	}{
		"issue closed": {
			"issues", "closed",
			func(w *world, n int) error {
				_, _, err := w.as("octavia").Issues.Edit(w.t.Context(), "acme", "calc", n, state("closed"))
				return err
			},
			func(w *world, n int) error {
				_, _, err := w.as("octavia").Issues.Edit(w.t.Context(), "acme", "calc", n, state("open"))
				return err
			},
			"the issue is open again",
		},
		"suspended": {
			"installation", "suspend",
			func(w *world, _ int) error { return w.double.Suspend(w.install.ID) },
			func(w *world, _ int) error { return w.double.Unsuspend(w.install.ID) },
			"0 missions ended",
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(held))
			w.start()
			n := w.atWork()
			w.drops(c.event, c.action)
			must(t, c.do(w, n))
			w.nextSecond()
			must(t, c.undo(w, n))
			if got := w.toldNow(c.event, c.action); !strings.Contains(got, c.want) {
				t.Errorf("it was handled: %s, want %q", got, c.want)
			}
			w.letGo()
			w.ended(n, "changed")
		})
	}
}

// TestPullRequestOpenAgainGoesOn although its closing is told after that.
func TestPullRequestOpenAgainGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n, pr := w.opened()
	w.drops("pull_request", "closed")
	for _, state := range []string{"closed", "open"} {
		_, _, err := w.as("octavia").PullRequests.Edit(t.Context(), "acme", "calc", pr.GetNumber(), &gh.PullRequest{State: &state})
		must(t, err)
		w.nextSecond()
	}
	if got := w.toldNow("pull_request", "closed"); !strings.Contains(got, "open again") {
		t.Errorf("it was handled: %s", got)
	}
	_, _, err := w.as("rita").PullRequests.Merge(t.Context(), "acme", "calc", pr.GetNumber(), "", nil)
	must(t, err)
	w.until("the end is told", func() bool { return w.said(n, "merged by rita") })
}

// TestCommandFromBeforeTheMission is not obeyed on it, and is answered: it was said, could not be delivered, and the label was put on later.
func TestCommandFromBeforeTheMission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(held))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.drops("issue_comment", "created")
	w.say("octavia", n, "/sandpiper cancel")
	w.nextSecond()
	w.label("octavia", n)
	w.until("the agent works", func() bool { return len(w.working()) == 1 })
	w.toldNow("issue_comment", "created")
	if !w.said(n, "begun after this was said") {
		t.Errorf("said %q", w.comments(n))
	}
	w.letGo()
	w.ended(n, "changed")
}
