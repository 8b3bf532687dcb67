package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
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
	w.review("toby", pull, "REQUEST_CHANGES")
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

// TestGateIsEndedWhereNobodyWaitsForIt: on a head that was superseded, and on the last one when the pull request is closed.
func TestGateIsEndedWhereNobodyWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	_, pr := w.opened()
	first := pr.GetHead().GetSHA()
	w.gateIs(first, "in_progress")
	second := w.pushes("rita", pr.GetHead().GetRef(), "mine.txt", "by rita\n")
	w.gateIs(second, "in_progress")
	w.gateIs(first, "cancelled")
	if _, title := w.gateOf(first); title != "superseded: the head is "+second[:12]+" now" {
		t.Errorf("the old gate says %q", title)
	}
	closed := "closed"
	_, _, err := w.as("rita").PullRequests.Edit(t.Context(), "acme", "calc", pr.GetNumber(), &gh.PullRequest{State: &closed})
	must(t, err)
	w.gateIs(second, "cancelled")
}

// TestGateCountsWhoMayJudge: nobody their own commit, an owner of what is touched, and nobody while GitHub's answers do not agree.
func TestGateCountsWhoMayJudge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes, ".github/CODEOWNERS", "# who\n*.txt @acme/core @Olga\n"))
	w.start()
	_, pr := w.opened()
	n, head := pr.GetNumber(), pr.GetHead().GetSHA()
	w.review("rita", n, "APPROVE")
	w.gateSays(head, "in_progress", "waiting: sum.txt is owned by @acme/core @Olga, and who is in a team cannot be read: the App has no permission `members: read`")
	w.review("olga", n, "APPROVE")
	w.gateIs(head, "success")

	// Her own commit is not hers to approve, and the API may show the old head for a while.
	old := w.raw(n)
	must(t, w.double.AddFault(github.Fault{Method: "GET", Path: fmt.Sprintf("^/repos/acme/calc/pulls/%d$", n), Times: -1, Status: 200, Body: old}))
	hers := w.pushes("rita", pr.GetHead().GetRef(), "mine.md", "by rita\n")
	w.say("rita", n, "/sandpiper approve "+hers[:12])
	w.say("olga", n, "/sandpiper approve "+hers[:12])
	w.gateSays(hers, "in_progress", "waiting: GitHub shows the head "+head[:7]+", git has "+hers[:7])
	w.double.ClearFaults()
	w.gateIs(hers, "success")
	run := w.runNamed(hers, "review")
	if text := run.GetOutput().GetSummary(); !strings.Contains(text, "rita: wrote a commit of this") || !strings.Contains(text, "Approved by olga.") {
		t.Errorf("the gate says\n%s", text)
	}

	// An approval that is dismissed, and a base that nobody has judged the change for.
	must1(w.double.Push("acme/calc", github.CommitOptions{Branch: "release", Login: "rita", Message: "a release", Files: map[string]string{"x": "y"}}))(t)
	_, _, err := w.as("rita").PullRequests.Edit(t.Context(), "acme", "calc", n, &gh.PullRequest{Base: &gh.PullRequestBranch{Ref: gh.String("release")}})
	must(t, err)
	w.gateSays(hers, "in_progress", "waiting: the pull request is for release now, and this was made and checked for main")
	_, _, err = w.as("rita").PullRequests.Edit(t.Context(), "acme", "calc", n, &gh.PullRequest{Base: &gh.PullRequestBranch{Ref: gh.String("main")}})
	must(t, err)
	w.gateIs(hers, "success")

	// Other words change nothing, and cost no call.
	_, _, err = w.as("rita").PullRequests.Edit(t.Context(), "acme", "calc", n, &gh.PullRequest{Title: gh.String("Another title")})
	must(t, err)
	w.until("the edit is passed over", func() bool { return strings.Contains(w.bot.text(), "the pull request is for the same base") })
}

// TestApprovalsOfDifferentHeadsAreNotAddedUp where two are wanted, by whichever way they were given.
func TestApprovalsOfDifferentHeadsAreNotAddedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes, ".github/sandpiper.yml", "agent: sh agent.sh\nreview: {approvals: 2, requester: true}\nchecks: []\n"))
	w.start()
	_, pr := w.opened()
	n, first := pr.GetNumber(), pr.GetHead().GetSHA()
	w.review("rita", n, "APPROVE")
	w.gateSays(first, "in_progress", "waiting for 1 of 2 approvals of "+first[:7])
	second := w.pushes("olga", pr.GetHead().GetRef(), "mine.md", "by olga\n")
	w.review("octavia", n, "APPROVE")
	w.gateSays(second, "in_progress", "waiting for 1 of 2 approvals of "+second[:7])
	if text := w.runNamed(second, "review").GetOutput().GetSummary(); !strings.Contains(text, "rita: the approval is of "+first[:7]) || !strings.Contains(text, "This head is not Sandpiper's") {
		t.Errorf("the gate says\n%s", text)
	}
	w.say("rita", n, "/sandpiper approve "+second[:12])
	w.say("rita", n, "/sandpiper approve "+second[:12])
	w.gateIs(second, "success")
}

// TestTeamsOwnWhatTheyOwn where the App may read who is in one.
func TestTeamsOwnWhatTheyOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes, ".github/CODEOWNERS", "sum.txt @acme/core\n"))
	w.app = must1(w.double.AddApp(github.AppOptions{
		Owner: "acme", Name: "Sandpiper With Members", HookSecret: secret,
		Permissions: map[string]string{"contents": "write", "issues": "write", "pull_requests": "write", "checks": "write", "metadata": "read", "members": "read"},
		Events:      []string{"issues", "issue_comment", "pull_request", "pull_request_review"},
	}))(t)
	w.install = must1(w.double.Install(w.app.Slug, "acme"))(t)
	must(t, w.double.AddTeam("acme", "core", "olga"))
	w.start()
	_, pr := w.opened()
	n, head := pr.GetNumber(), pr.GetHead().GetSHA()
	for _, store := range must1(filepath.Glob(filepath.Join(w.dir, "state/stores/*.git")))(t) { // as of a bot that has not worked on it
		must(t, os.RemoveAll(store))
	}
	w.review("rita", n, "APPROVE")
	w.gateSays(head, "in_progress", "waiting: sum.txt is owned by @acme/core, none of whom has approved")
	review := w.asks("olga", n, "APPROVE", "Good.")
	w.gateIs(head, "success")
	_, _, err := w.as("rita").PullRequests.DismissReview(t.Context(), "acme", "calc", n, review.GetID(), &gh.PullRequestReviewDismissalRequest{Message: gh.String("not yet")})
	must(t, err)
	w.gateSays(head, "in_progress", "waiting: sum.txt is owned by @acme/core, none of whom has approved")
}

// raw is a pull request as the API shows it now.
func (w *world) raw(pull int) string {
	w.t.Helper()
	request := must1(w.as("rita").NewRequest("GET", fmt.Sprintf("repos/acme/calc/pulls/%d", pull), nil))(w.t)
	var body json.RawMessage
	must1(w.as("rita").Do(w.t.Context(), request, &body))(w.t)
	return string(body)
}

// gateSays waits until the gate of a commit is in a state, with exactly that title.
func (w *world) gateSays(sha, state, title string) {
	w.t.Helper()
	var s, got string
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the gate of %.7s is %s: %q", sha, s, got)
		}
	}()
	w.until("the review gate says "+title, func() bool { s, got = w.gateOf(sha); return s == state && got == title })
}
