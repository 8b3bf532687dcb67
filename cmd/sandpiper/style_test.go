package main

import (
	"fmt"
	"strings"
	"testing"

	github "github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// TestTitleAsTheRepositoryHasIt words pull request and commit as the latest commits are worded, and tells what the agent said.
func TestTitleAsTheRepositoryHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes+"echo 'The sum began at the second number. @rita'\n"))
	for i := range 12 {
		must1(w.double.Push("acme/calc", github.CommitOptions{Branch: "main", Login: "octavia", Message: fmt.Sprintf("feat(list): add number %d", i), Files: map[string]string{"list.txt": fmt.Sprintln(i)}}))(t)
	}
	w.start()
	n := w.openIssue("Sum returns 0 for one number.", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	pr := w.pulls()[0]
	if got, want := pr.GetTitle(), "fix: sum returns 0 for one number"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	commit, _, err := w.as("rita").Git.GetCommit(t.Context(), "acme", "calc", pr.GetHead().GetSHA())
	must(t, err)
	if !strings.HasPrefix(commit.GetMessage(), pr.GetTitle()+"\n") {
		t.Errorf("message %q", commit.GetMessage())
	}
	for _, want := range []string{"### What the agent says", "began at the second number", "@&#8203;rita", "#issuecomment-"} {
		if !strings.Contains(pr.GetBody(), want) {
			t.Errorf("the pull request does not say %q:\n%s", want, pr.GetBody())
		}
	}
}
