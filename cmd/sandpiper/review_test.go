package main

import (
	"testing"

	gh "github.com/google/go-github/v60/github"
)

// review has a person review a pull request at its head.
func (w *world) review(login string, pull int, event string) {
	_, _, err := w.as(login).PullRequests.CreateReview(w.t.Context(), "acme", "calc", pull, &gh.PullRequestReviewRequest{Event: &event, Body: gh.String("seen")})
	must(w.t, err)
}

// gateOf is where the newest review gate on a commit stands.
func (w *world) gateOf(sha string) (state, title string) {
	var newest *gh.CheckRun
	for _, run := range w.allRuns(sha) {
		if run.GetName() == "sandpiper / review" && run.GetID() > newest.GetID() {
			newest = run
		}
	}
	if newest.GetConclusion() != "" {
		return newest.GetConclusion(), newest.GetOutput().GetTitle()
	}
	return newest.GetStatus(), newest.GetOutput().GetTitle()
}

func (w *world) gateIs(sha, want string) {
	w.t.Helper()
	w.until("the review gate is "+want, func() bool { state, _ := w.gateOf(sha); return state == want })
}

// TestHumansHoldTheGate walks the gate through everything that opens and closes it.
func TestHumansHoldTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	pr := w.pulls()[0]
	head, pull := pr.GetHead().GetSHA(), pr.GetNumber()
	w.gateIs(head, "in_progress")

	w.review("octavia", pull, "APPROVE") // asked for it
	w.review("toby", pull, "APPROVE")    // may only read
	must(t, w.double.Flush(t.Context()))
	w.say("octavia", pull, "/sandpiper approve "+head[:12])
	w.until("the requester is told", func() bool { return w.said(pull, "does not count here") })
	w.gateIs(head, "in_progress")

	w.review("rita", pull, "REQUEST_CHANGES")
	w.until("the objection is shown", func() bool { _, title := w.gateOf(head); return title == "rita asked for changes" })
	w.say("olga", pull, "/sandpiper approve "+head[:12])
	w.until("olga's approval is recorded", func() bool { return w.said(pull, "Approval of") })
	w.gateIs(head, "in_progress") // one approval does not outweigh an objection
	w.review("rita", pull, "APPROVE")
	w.gateIs(head, "success")

	// A push makes it wait again: nobody has approved the new head.
	file, _, _, err := w.as("rita").Repositories.GetContents(t.Context(), "acme", "calc", "README.md", &gh.RepositoryContentGetOptions{Ref: pr.GetHead().GetRef()})
	must(t, err)
	made, _, err := w.as("rita").Repositories.UpdateFile(t.Context(), "acme", "calc", "README.md", &gh.RepositoryContentFileOptions{
		Message: gh.String("more"), Content: []byte("# calc\n\nmore\n"), SHA: file.SHA, Branch: pr.GetHead().Ref,
	})
	must(t, err)
	w.gateIs(made.GetSHA(), "in_progress")
	w.say("olga", pull, "/sandpiper approve "+head[:12])
	w.until("an approval of an old head is not taken", func() bool { return w.said(pull, "Say which commit") })
}
