package promote

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"

	double "github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// suggesting is a pull request of mona's whose head a run has worked on, with what was staged of it.
func suggesting(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	head, err := w.server.Push("octavia/calc", double.CommitOptions{Login: "mona", Branch: "hers", Message: "by hand", Files: map[string]string{"sum.go": "package calc\n\nfunc Sum() int\n"}})
	must(t, err)
	mona, err := w.server.As("mona")
	must(t, err)
	pr, _, err := mona.PullRequests.Create(t.Context(), "octavia", "calc", &github.NewPullRequest{Title: github.String("Hers"), Head: github.String("hers"), Base: github.String("main")})
	must(t, err)
	must(t, w.repo.Stores.Fetch(t.Context(), w.repo.Remote, "+refs/heads/hers:refs/sandpiper/fetch/hers"))
	w.made.base, w.made.files = head, map[string]string{"sum.go": "package calc\n\nfunc Sum() int { return 0 }\n", "b.txt": "b\n"}
	w.req.Issue, w.req.Suggest, w.req.Bot.Login = pr.GetNumber(), true, "sandpiper[bot]"
	w.req.Staged, err = Stage(t.Context(), w.made, w.repo, nil, w.req)
	must(t, err)
	if w.req.Staged.Base != head {
		t.Fatalf("staged on %s, not on the head %s", w.req.Staged.Base, head)
	}
	return w
}

func (w *world) reviews() []*github.PullRequestReview {
	w.t.Helper()
	list, _, err := w.deps.GitHub.PullRequests.ListReviews(w.t.Context(), "octavia", "calc", w.req.Issue, nil)
	must(w.t, err)
	return list
}

// TestPostReviewIsMadeOnce, whatever becomes of the answer, also on a head that has moved since.
func TestPostReviewIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := suggesting(t)
	must(t, w.server.AddFault(double.Fault{Method: "POST", Path: "/reviews$", AfterEffect: true, Hangup: true}))
	if _, err := PostReview(t.Context(), w.deps, w.req); err == nil {
		t.Fatal("a lost answer is no error")
	}
	_, err := w.server.Push("octavia/calc", double.CommitOptions{Login: "mona", Branch: "hers", Message: "more", Files: map[string]string{"x": "y"}})
	must(t, err)
	for n := range 2 {
		got, err := PostReview(t.Context(), w.deps, w.req)
		must(t, err)
		if list := w.reviews(); len(list) != 1 || got.URL != list[0].GetHTMLURL() || got.Suggestions != 1 || list[0].GetState() != "COMMENTED" {
			t.Fatalf("%d reviews, got %+v", len(list), got)
		}
		if w.made.promoted.Load() != int32(n+1) {
			t.Errorf("the sandbox was told %d times that its work was taken, want each time", w.made.promoted.Load())
		}
	}
	w.req.Mission = "m-other"
	var moved *ErrHeadMoved
	if _, err := PostReview(t.Context(), w.deps, w.req); !errors.As(err, &moved) || moved.Was != w.req.Staged.Base || len(w.reviews()) != 1 {
		t.Errorf("on another head: %v", err)
	}
}

// TestPostReviewWithoutLinesThatGitHubRefuses: a line that GitHub does not take does not cost the result.
func TestPostReviewWithoutLinesThatGitHubRefuses(t *testing.T) {
	t.Parallel()
	w := suggesting(t)
	must(t, w.server.AddFault(double.Fault{Method: "POST", Path: "/reviews$", Status: http.StatusUnprocessableEntity, Message: "Unprocessable Entity"}))
	got, err := PostReview(t.Context(), w.deps, w.req)
	must(t, err)
	body := w.reviews()[0].GetBody()
	if got.Suggestions != 0 || !strings.Contains(body, "suggested: as a patch below") || !strings.Contains(body, "+func Sum() int { return 0 }") {
		t.Errorf("%+v:\n%s", got, body)
	}
}

// TestPostReviewOnAClosedPullRequest says so and posts nothing.
func TestPostReviewOnAClosedPullRequest(t *testing.T) {
	t.Parallel()
	w := suggesting(t)
	mona, err := w.server.As("mona")
	must(t, err)
	_, _, err = mona.PullRequests.Edit(t.Context(), "octavia", "calc", w.req.Issue, &github.PullRequest{State: github.String("closed")})
	must(t, err)
	if _, err := PostReview(t.Context(), w.deps, w.req); !errors.As(err, new(*ErrClosed)) || len(w.reviews()) != 0 {
		t.Errorf("got %v and %d reviews", err, len(w.reviews()))
	}
}

// TestPostReviewNamesWhatItCannotShow: pointers of Git LFS, and everything of a result that is too long.
func TestPostReviewNamesWhatItCannotShow(t *testing.T) {
	t.Parallel()
	w := suggesting(t)
	w.req.Staged.LFS = []LFSObject{{Content: w.req.Staged.Changes[0]}} // b.txt
	got, err := PostReview(t.Context(), w.deps, w.req)
	must(t, err)
	body := w.reviews()[0].GetBody()
	if got.Suggestions != 1 || strings.Contains(body, "+b\n") || !strings.Contains(body, "- `b.txt`\n") || !strings.Contains(body, "sandpiper sandbox recover r-3f2k-1 --to DIRECTORY") {
		t.Errorf("%+v:\n%s", got, body)
	}
}
