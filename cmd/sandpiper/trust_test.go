package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	gh "github.com/google/go-github/v60/github"
)

// outsidersIssue opens an issue as somebody who may only read, and has somebody with write access label it.
func (w *world) outsidersIssue() int {
	w.t.Helper()
	title, body := "Sum returns 0", "please"
	issue, _, err := w.as("toby").Issues.Create(w.t.Context(), "acme", "calc", &gh.IssueRequest{Title: &title, Body: &body})
	must(w.t, err)
	w.label("octavia", issue.GetNumber())
	return issue.GetNumber()
}

// containers says whether this machine has a boundary for text by people without write access: an ordinary user has none.
func containers() bool {
	_, err := exec.LookPath("runc")
	return err == nil && os.Geteuid() == 0
}

// Text by people without write access needs a boundary that was proven to hold an adversary, whoever set the label.
func TestOutsidersTextIsContained(t *testing.T) {
	t.Parallel()
	if !containers() {
		t.Skip("no container can be run here")
	}
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.outsidersIssue()
	w.ended(n, "changed")
	if !w.said(n, "is by toby, who has read access here") {
		t.Error("the decision is not in the status comment")
	}
	pulls := w.pulls()
	if len(pulls) != 1 || !strings.Contains(pulls[0].GetBody(), "outsider, by container") {
		t.Errorf("the decision is not in the pull request: %d", len(pulls))
	}
}

// There is never a weaker boundary than the text needs.
func TestOutsidersTextIsRefusedWithoutAStrongerBoundary(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.env = []string{"SANDPIPER_BACKEND_OUTSIDER=worktree"}
	w.start()
	n := w.outsidersIssue()
	w.until("the refusal", func() bool { return w.said(n, "backend worktree is not strong enough here") })
	if got := len(w.pulls()); got != 0 {
		t.Errorf("%d pull requests", got)
	}
	if !w.said(n, "with runc installed") {
		t.Error("what an admin can do is not said")
	}
}
