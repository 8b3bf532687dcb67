package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// longFile has 40 lines, some of them other ones.
func longFile(other map[int]string) string {
	var b strings.Builder
	for n := 1; n <= 40; n++ {
		if text, ok := other[n]; ok {
			b.WriteString(text)
		} else {
			fmt.Fprintf(&b, "line %d\n", n)
		}
	}
	return b.String()
}

// suggests is an agent that changes two lines which the page of the pull request shows, one that it does not, and a file beside it.
const suggests = "sed -i -e 's/^ten$/TEN\\nand a half/' -e 's/^line 20$/twenty/' -e '/^line 31$/d' long.txt\necho 1 >sum.txt\necho n >new.txt"

// fromAfar has toby open a pull request from a fork, whose branch is named as the base is.
func (w *world) fromAfar() (number int, head string) {
	w.t.Helper()
	fork, _, err := w.as("toby").Repositories.CreateFork(w.t.Context(), "acme", "calc", nil)
	if _, queued := err.(*gh.AcceptedError); !queued {
		must(w.t, err)
	}
	head = w.pushesAfar(fork.GetFullName(), longFile(map[int]string{10: "ten\n", 30: "thirty\n"}))
	pr, _, err := w.as("toby").PullRequests.Create(w.t.Context(), "acme", "calc", &gh.NewPullRequest{Title: gh.String("From afar"), Head: gh.String("toby:main"), Base: gh.String("main")})
	must(w.t, err)
	return pr.GetNumber(), head
}

func (w *world) pushesAfar(fork, text string) string {
	w.t.Helper()
	return must1(w.double.Push(fork, github.CommitOptions{Branch: "main", Login: "toby", Message: "by hand", Files: map[string]string{"long.txt": text}}))(w.t)
}

// reviewsOf are the bot's reviews of a pull request.
func (w *world) reviewsOf(pull int) []*gh.PullRequestReview {
	w.t.Helper()
	list, _, err := w.as("rita").PullRequests.ListReviews(w.t.Context(), "acme", "calc", pull, nil)
	must(w.t, err)
	return slices.DeleteFunc(list, func(r *gh.PullRequestReview) bool { return r.GetUser().GetLogin() != w.app.BotLogin() })
}

// taken is what long.txt becomes when the patch of a review is applied to the head and each of its suggestions is taken.
func (w *world) taken(pull int, r *gh.PullRequestReview) string {
	w.t.Helper()
	dir := w.t.TempDir()
	run := func(stdin string, args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Fatalf("git %q: %v\n%s\n%s", args, err, out, stdin)
		}
	}
	must(w.t, os.WriteFile(filepath.Join(dir, "long.txt"), []byte(w.fileAt(w.head(pull), "long.txt")), 0o644))
	must(w.t, os.WriteFile(filepath.Join(dir, "sum.txt"), []byte("0\n"), 0o644))
	if _, patch, ok := strings.Cut(r.GetBody(), "```diff\n"); ok {
		patch, _, _ = strings.Cut(patch, "```")
		run("", "init", "-q")
		run(patch, "apply")
	}
	text := string(must1(os.ReadFile(filepath.Join(dir, "long.txt")))(w.t))
	comments, _, err := w.as("rita").PullRequests.ListReviewComments(w.t.Context(), "acme", "calc", pull, r.GetID(), nil)
	must(w.t, err)
	slices.SortFunc(comments, func(a, b *gh.PullRequestComment) int { return b.GetLine() - a.GetLine() })
	lines := strings.SplitAfter(text, "\n")
	for _, c := range comments {
		block, ok := strings.CutPrefix(c.GetBody(), "```suggestion\n")
		if !ok || c.GetPath() != "long.txt" || c.GetSide() != "RIGHT" {
			w.t.Fatalf("%s %s: %s", c.GetPath(), c.GetSide(), c.GetBody())
		}
		first := c.GetLine()
		if c.GetStartLine() != 0 {
			first = c.GetStartLine()
		}
		lines = slices.Replace(lines, first-1, c.GetLine(), strings.TrimSuffix(block, "```"))
	}
	return strings.Join(lines, "")
}

// TestCase21FixOnAForkIsSuggested: nothing is pushed to a branch of a fork, nor to the one here that has its name. What the agent made is a
// review, which is made once; to take what it suggests gives what the agent made.
func TestCase21FixOnAForkIsSuggested(t *testing.T) {
	t.Parallel()
	if !containers() {
		t.Skip("no container can be run here")
	}
	w := newWorld(t, calc(suggests, "long.txt", longFile(nil)))
	w.start()
	main := must1(w.double.BranchHead("acme/calc", "main"))(t)
	n, head := w.fromAfar()
	must(t, w.double.AddFault(github.Fault{Method: "POST", Path: fmt.Sprintf("/pulls/%d/reviews$", n), Status: 502, AfterEffect: true}))
	w.double.AddHookFault(github.HookFault{Kind: "duplicate", Event: "issue_comment", Times: 2})
	w.say("rita", n, "/sandpiper fix it, please")
	w.until("it is told how", func() bool { return w.said(n, "a review with suggestions: this pull request comes from a fork") })
	w.ended(n, "changed")
	if !strings.Contains(w.bot.text(), "webhook came again") {
		t.Error("the command came once only")
	}

	reviews := w.reviewsOf(n)
	if len(reviews) != 1 || reviews[0].GetState() != "COMMENTED" || reviews[0].GetCommitID() != head {
		t.Fatalf("%d reviews: %+v", len(reviews), reviews)
	}
	body := reviews[0].GetBody()
	for _, part := range []string{"2 suggestions on the lines, and a patch below", "asked by `rita`", "it, please", "`new.txt`", "on the head with all of this in it"} {
		if !strings.Contains(body, part) {
			t.Errorf("the review does not say %q:\n%s", part, body)
		}
	}
	want := longFile(map[int]string{10: "TEN\nand a half\n", 20: "twenty\n", 30: "thirty\n", 31: ""})
	if diff := cmp.Diff(want, w.taken(n, reviews[0])); diff != "" {
		t.Errorf("taken (-want +got)\n%s", diff)
	}
	if len(w.pulls()) != 1 || w.head(n) != head || must1(w.double.BranchHead("acme/calc", "main"))(t) != main {
		t.Errorf("%d pull requests; something was pushed", len(w.pulls()))
	}
	if !w.said(n, "outsider, by container") || !w.said(n, "takes a suggestion by a click") || w.said(n, "/sandpiper retry` starts") {
		t.Errorf("the status comment: %q", w.comments(n))
	}
	if left := w.allRuns(head); len(left) != 0 {
		t.Errorf("%d Check Runs on a head that was not checked", len(left))
	}
	w.say("rita", n, "/sandpiper retry")
	w.until("there is another review", func() bool { return len(w.reviewsOf(n)) == 2 })
}

// TestNothingIsSuggestedOnAnotherHead than the one that the agent worked on; it is said, and what was made is kept.
func TestNothingIsSuggestedOnAnotherHead(t *testing.T) {
	t.Parallel()
	if !containers() {
		t.Skip("no container can be run here")
	}
	w := newWorld(t, calc(waitsThen+suggests, "long.txt", longFile(nil)))
	w.start()
	n, _ := w.fromAfar()
	w.say("rita", n, "/sandpiper fix it")
	w.until("the agent is at work", func() bool { return len(w.working()) == 1 })
	w.pushesAfar("toby/calc", longFile(map[int]string{1: "one\n"}))
	w.goOn()
	w.ended(n, "blocked by rule")
	if !w.said(n, "branch moved") || !w.said(n, "sandpiper sandbox recover") || !w.said(n, "Once that is changed: `/sandpiper fix [words]`") {
		t.Errorf("said %q", w.comments(n))
	}
	if got := w.reviewsOf(n); len(got) != 0 {
		t.Errorf("suggested all the same: %s", got[0].GetBody())
	}
}

// TestGatesHoldASuggestion, which has no draft: also what would make a pull request one waits for a person's word.
func TestGatesHoldASuggestion(t *testing.T) {
	t.Parallel()
	if !containers() {
		t.Skip("no container can be run here")
	}
	w := newWorld(t, calc("echo 1 >sum.txt\nsed -i 's/^ten$/TEN/' long.txt\necho '{}' >package.json", "long.txt", longFile(nil)))
	w.start()
	n, _ := w.fromAfar()
	w.say("rita", n, "/sandpiper fix it")
	w.ended(n, "blocked by policy")
	w.waits(1)
	if !w.said(n, "gate dependencies") || len(w.reviewsOf(n)) != 0 {
		t.Errorf("%d reviews, said %q", len(w.reviewsOf(n)), w.comments(n))
	}
	w.say("rita", n, "/sandpiper allow dependencies")
	w.until("it is suggested", func() bool { return len(w.reviewsOf(n)) == 1 })
	if body := w.reviewsOf(n)[0].GetBody(); !strings.Contains(body, "allowed by `rita`") {
		t.Errorf("who has allowed it is not said:\n%s", body)
	}
}
