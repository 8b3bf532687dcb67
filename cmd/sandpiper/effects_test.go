package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// TestEveryAmbiguousAnswer has each call of a mission that changes something at GitHub fail in each way that leaves open
// whether it was done, and once in a way that does not. Every mission has one outcome all the same.
func TestEveryAmbiguousAnswer(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 1, "")
	w := s.bots[0]
	for _, call := range []struct{ method, path string }{
		{"POST", "/issues/%d/comments$"}, {"PATCH", "/issues/comments/"}, {"PATCH", "/issues/comments/"}, {"DELETE", "/issues/%d/labels/"},
		{"POST", "/pulls$"}, {"POST", "/check-runs$"}, {"POST", "/check-runs$"}, {"POST", "/check-runs$"}, {"GIT", "git-receive-pack$"}, {"POST", "/access_tokens$"},
	} {
		for _, fault := range []github.Fault{
			{Status: 502, AfterEffect: true}, {Hangup: true, AfterEffect: true}, {Hangup: true},
		} {
			n := w.openIssue("Sum returns 0", "")
			s.issues = append(s.issues, n)
			fault.Method, fault.Path = call.method, call.path
			if strings.Contains(call.path, "%d") {
				fault.Path = fmt.Sprintf(call.path, n)
			}
			must(t, w.double.AddFault(fault))
		}
	}
	for _, n := range s.issues {
		w.label("octavia", n)
	}
	s.judge()
	for _, n := range s.issues {
		if !w.said(n, "**changed**") {
			t.Errorf("issue %d: %q", n, w.comments(n))
		}
	}
}

// TestLimits has GitHub refuse calls in the ways of its limits. The mission waits in the queue, one of another installation
// does not wait with it, and nothing of the waiting counts as a failure.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(w *world) error{
		"primary": func(w *world) error { w.double.ExhaustQuota(w.install.ID, 8*time.Second); return nil },
		"secondary": func(w *world) error {
			return w.double.AddFault(github.SecondaryLimit("POST", "/repos/acme/calc/pulls$", 2, 7*time.Second))
		},
		"secondary 429": func(w *world) error {
			f := github.SecondaryLimit("PATCH", "/repos/acme/calc/issues/comments/", 2, 7*time.Second)
			f.Status = http.StatusTooManyRequests
			return w.double.AddFault(f)
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(fixes))
			must1(w.double.AddOrg("other", "olga"))(t)
			w.addRepo("other/calc", "main", calc(fixes))
			must1(w.double.Install(w.app.Slug, "other"))(t)
			w.start()
			n := w.openIssue("Sum returns 0", "")
			must(t, limit(w))
			w.label("octavia", n)
			w.until("the limit is met", func() bool { return strings.Contains(w.bot.text(), "github limits this installation") })
			other, _, err := w.as("octavia").Issues.Create(t.Context(), "other", "calc", &gh.IssueRequest{Title: gh.String("Not limited")})
			must(t, err)
			_, _, err = w.as("octavia").Issues.AddLabelsToIssue(t.Context(), "other", "calc", other.GetNumber(), []string{"sandpiper"})
			must(t, err)
			w.until("the other installation's mission waits for a review", func() bool {
				return strings.Contains(w.bot.text(), `"issue":"other/calc#1"`) && endedStep(w.bot.text(), "other/calc#1")
			})
			w.ended(n, "changed")
			if got := len(w.comments(n)); got != 1 || len(w.pulls()) != 1 {
				t.Errorf("%d comments and %d pull requests, want one of each", got, len(w.pulls()))
			}
		})
	}
}

// endedStep says whether the log tells that an issue's mission waits for people.
func endedStep(log, issue string) bool {
	for _, line := range strings.Split(log, "\n") {
		if strings.Contains(line, `"issue":"`+issue+`"`) && strings.Contains(line, `"next":"waiting"`) {
			return true
		}
	}
	return false
}
