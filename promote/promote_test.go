package promote

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	double "github.com/sandpiper-bot/sandpiper/fixtures/github"
)

const branch = "sandpiper/1-sum-returns-0-for-a-single-number-1"

func TestPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.req.Draft, w.req.DraftReason = true, "the required check test failed"
	res, err := w.publish()
	must(t, err)
	if res.Branch != branch || res.PR.GetTitle() != "Sum returns 0 for a single number" || !res.PR.GetDraft() || res.Adopted {
		t.Errorf("%q %q draft %v adopted %v", res.Branch, res.PR.GetTitle(), res.PR.GetDraft(), res.Adopted)
	}
	if got := res.PR.GetHead().GetSHA(); got != res.Head {
		t.Errorf("head of the pull request is %s, want %s", got, res.Head)
	}
	commit, _, err := w.deps.GitHub.Git.GetCommit(t.Context(), "octavia", "calc", res.Head)
	must(t, err)
	if diff := cmp.Diff(CommitMessage(w.req, strings.Clone), commit.GetMessage()+"\n"); diff != "" {
		t.Errorf("message (-want +got)\n%s", diff)
	}
	if got := commit.GetAuthor(); got.GetName() != "sandpiper[bot]" || got.GetEmail() != "8+sandpiper[bot]@users.noreply.github.com" {
		t.Errorf("author is %v", got)
	}
	kept, err := w.made.git("", nil, "cat-file", "blob", ManifestRef(w.req.Run))
	must(t, err)
	attached, ok := FindEnvelope(res.PR.GetBody())
	if diff := cmp.Diff(kept, string(attached)); diff != "" || !ok {
		t.Errorf("manifest in the store and in the pull request (-store +body)\n%s", diff)
	}
	m, ok := ParseMarker(res.PR.GetBody())
	if diff := cmp.Diff(Marker{"m-3f2k", "r-3f2k-1", res.Manifest.Digest()}, m); diff != "" || !ok {
		t.Errorf("marker %v (-want +got)\n%s", ok, diff)
	}
	for _, want := range []string{
		"Closes #1", "This is a draft:", "| `sum.go` | modified | 2 | 1 |", "| `test` | `go test ./...` | success | yes | 3.4s | passed |",
		"fixtures/agents/fix-sum", "`AGENTS.md`", "`comment 12`: edited after the trigger", res.Manifest.Digest(), res.Head,
		res.Manifest.Base, res.Manifest.Tree, "neither approves nor merges", "/sandpiper discard",
	} {
		if !strings.Contains(res.PR.GetBody(), want) {
			t.Errorf("body lacks %q:\n%s", want, res.PR.GetBody())
		}
	}
}

// exactlyOne says that the mission has come to one branch and one pull request, with the head that was asked for.
func (w *world) exactlyOne(res Result) {
	w.t.Helper()
	pulls, branches := w.pulls(), w.branches()
	if len(pulls) != 1 || len(branches) != 1 {
		w.t.Fatalf("%d pull requests and branches %v, want one each", len(pulls), branches)
	}
	if got := branches["refs/heads/"+res.Branch]; got != res.Head || res.Head == "" || pulls[0].GetNumber() != res.PR.GetNumber() {
		w.t.Errorf("branch at %s, head %s, pull request %d and %d", got, res.Head, pulls[0].GetNumber(), res.PR.GetNumber())
	}
}

func TestPublishTwiceIsOnePullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.publish()
	must(t, err)
	octavia, err := w.server.As("octavia")
	must(t, err)
	edited := w.pulls()[0].GetBody() + "\nA person's note."
	_, _, err = octavia.PullRequests.Edit(t.Context(), "octavia", "calc", w.pulls()[0].GetNumber(), &github.PullRequest{Body: &edited})
	must(t, err)
	res, err := w.publish()
	must(t, err)
	if w.exactlyOne(res); !res.Adopted || w.pulls()[0].GetBody() != edited {
		t.Errorf("adopted %v, body %q", res.Adopted, w.pulls()[0].GetBody())
	}
}

func TestPublishAtOnceIsOnePullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	staged, err := w.stage()
	must(t, err)
	w.req.Staged = staged
	var group sync.WaitGroup
	results := make([]Result, 2)
	for i := range results {
		group.Go(func() {
			var err error
			if results[i], err = Publish(t.Context(), w.deps, w.req); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.exactlyOne(results[0])
	w.exactlyOne(results[1])
}

// behind is a Repository whose first listing of branches is from before anything was pushed.
type behind struct {
	Repository
	base string
	once sync.Once
}

func (b *behind) LsRemote(ctx context.Context, patterns ...string) (map[string]string, error) {
	refs := map[string]string{}
	b.once.Do(func() { refs["refs/heads/main"] = b.base })
	if len(refs) > 0 {
		return refs, nil
	}
	return b.Repository.LsRemote(ctx, patterns...)
}

func TestPublishWhileAnotherPublishesTheSame(t *testing.T) {
	t.Parallel()
	for name, previous := range map[string]bool{"first run": false, "next run": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first, err := w.publish()
			must(t, err)
			if previous {
				w.req.Previous = &Branch{first.Branch, strings.Repeat("0", 40)}
			}
			w.deps.Repository = &behind{Repository: w.repo, base: w.made.base}
			res, err := w.publish()
			must(t, err)
			w.exactlyOne(res)
		})
	}
}

func TestPublishAfterLostAnswersIsOnePullRequest(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]double.Fault{
		"502 after the push":           {Method: "GIT", Path: "git-receive-pack$", Status: 502, AfterEffect: true},
		"502 before the push":          {Method: "GIT", Path: "git-receive-pack$", Status: 502},
		"cut off in the push":          {Method: "GIT", Path: "git-receive-pack$", Hangup: true, AfterEffect: true},
		"502 after the pull request":   {Method: http.MethodPost, Path: "/pulls$", Status: 502, AfterEffect: true},
		"502 before the pull request":  {Method: http.MethodPost, Path: "/pulls$", Status: 502},
		"cut off in the pull request":  {Method: http.MethodPost, Path: "/pulls$", Hangup: true, AfterEffect: true},
		"502 while listing":            {Method: http.MethodGet, Path: "/pulls$", Status: 502},
		"killed between push and pull": {Method: http.MethodPost, Path: "/pulls$", Status: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			must(t, w.server.AddFault(f))
			res, err := w.publish()
			if err != nil {
				t.Logf("first try: %v", err)
				res, err = w.publish() // as the next tick does
			}
			must(t, err)
			w.exactlyOne(res)
		})
	}
}

func TestPublishAfterTheAnswerThatItExists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := w.publish()
	must(t, err)
	// The first listing is of a moment ago.
	must(t, w.server.AddFault(double.Fault{Method: http.MethodGet, Path: "/pulls$", Times: 1, Status: 200, Body: "[]", Header: map[string]string{"Content-Type": "application/json"}}))
	res, err := w.publish()
	must(t, err)
	if w.exactlyOne(res); !res.Adopted || res.PR.GetNumber() != first.PR.GetNumber() {
		t.Errorf("adopted %v: #%d, want #%d", res.Adopted, res.PR.GetNumber(), first.PR.GetNumber())
	}
}

func TestPublishLeavesOtherMissionsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := w.publish()
	must(t, err)
	w.req.Mission, w.req.Run = "m-other", "r-other-1"
	second, err := w.publish()
	must(t, err)
	if second.Branch != strings.TrimSuffix(branch, "1")+"2" || second.PR.GetNumber() == first.PR.GetNumber() {
		t.Errorf("second mission got %s and #%d", second.Branch, second.PR.GetNumber())
	}
	if got := w.branches()["refs/heads/"+branch]; got != first.Head {
		t.Errorf("the first branch is at %s, want %s", got, first.Head)
	}
	// The first is merged and its branch deleted: its name is not used again.
	w.close(first.PR.GetNumber())
	must(t, w.server.MoveBranch("octavia/calc", branch, ""))
	w.req.Mission, w.req.Run = "m-third", "r-third-1"
	third, err := w.publish()
	must(t, err)
	if third.Branch != strings.TrimSuffix(branch, "1")+"3" {
		t.Errorf("third mission got %s", third.Branch)
	}
}

func TestPublishStaysOnItsNameWhenALowerOneIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.server.Push("octavia/calc", double.CommitOptions{Login: "mona", Branch: branch, Message: "mine", Files: map[string]string{"mine.txt": "x"}})
	must(t, err)
	first, err := w.publish()
	must(t, err)
	if first.Branch == branch {
		t.Fatalf("took a person's branch")
	}
	must(t, w.server.MoveBranch("octavia/calc", branch, ""))
	again, err := w.publish()
	must(t, err)
	if w.exactlyOne(again); again.Branch != first.Branch {
		t.Errorf("went from %s to %s", first.Branch, again.Branch)
	}
}

func TestPublishDoesNotOpenAgainWhatPeopleClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	res, err := w.publish()
	must(t, err)
	w.close(res.PR.GetNumber())
	for _, deleted := range []bool{false, true} {
		if deleted {
			must(t, w.server.MoveBranch("octavia/calc", branch, ""))
		}
		_, err = w.publish()
		var closed *ErrClosed
		if !errors.As(err, &closed) || closed.PR.GetNumber() != res.PR.GetNumber() {
			t.Errorf("branch deleted %v: got %v, want ErrClosed", deleted, err)
		}
	}
	if n := len(w.pulls()); n != 1 {
		t.Errorf("%d pull requests", n)
	}
}

func TestNextRunGoesOnOnTheSameBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := w.publish()
	must(t, err)
	w.req.Run, w.req.Previous = "r-3f2k-2", &Branch{first.Branch, first.Head}
	w.made.files["sum.go"] = "package calc\n\nfunc Sum() int { return 1 }\n"
	second, err := w.publish()
	must(t, err)
	w.exactlyOne(second)
	if second.Head == first.Head || !strings.Contains(w.pulls()[0].GetBody(), second.Head) {
		t.Errorf("the text still tells of %s", first.Head)
	}
	again, err := w.publish() // with Previous as it was before
	must(t, err)
	w.exactlyOne(again)
}

func TestCase14HumanMovedTheBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := w.publish()
	must(t, err)
	human, err := w.server.Push("octavia/calc", double.CommitOptions{Login: "mona", Branch: first.Branch, Message: "mine", Files: map[string]string{"mine.txt": "x"}})
	must(t, err)
	w.made.files["sum.go"] = "package calc\n\n// other\n"
	for _, previous := range []*Branch{nil, {first.Branch, first.Head}} {
		w.req.Previous = previous
		if _, err := w.publish(); !errors.Is(err, ErrBranchMoved) {
			t.Errorf("previous %v: got %v, want %v", previous, err, ErrBranchMoved)
		}
	}
	if got := w.branches()["refs/heads/"+first.Branch]; got != human || len(w.pulls()) != 1 {
		t.Errorf("the branch is at %s, want the person's %s", got, human)
	}
}
