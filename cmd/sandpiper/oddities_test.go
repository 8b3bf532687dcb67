package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// These have agents and people do what is odd and happens.

// byTitle is an agent that does for each issue what its title names.
func byTitle(does map[string]string) string {
	var b strings.Builder
	b.WriteString("git() { command git -c user.name=a -c user.email=a@example.com \"$@\"; }\n")
	for title, script := range does {
		fmt.Fprintf(&b, "if head -3 /sandpiper/task.md | grep -qF '%s'; then\n%s\nexit 0\nfi\n", title, script)
	}
	return b.String() + "echo no such case\nexit 9\n"
}

// TestFilesDecideWhateverBecameOfGit has agents leave git in every state. What counts are the files.
func TestFilesDecideWhateverBecameOfGit(t *testing.T) {
	t.Parallel()
	const mend = "echo 1 >sum.txt\n"
	does := map[string]string{
		"deletes git":         mend + "rm -rf .git || true",
		"another repository":  mend + "rm -rf .git; git init -q . || true",
		"orphan branch":       "git checkout -q --orphan new\n" + mend + "git add -A\ngit commit -qm fresh",
		"amends":              mend + "git add -A\ngit commit -q --amend -m rewritten",
		"locks":               mend + "touch $(git rev-parse --git-dir)/index.lock $(git rev-parse --git-dir)/HEAD.lock",
		"assumes unchanged":   "git update-index --assume-unchanged sum.txt\n" + mend,
		"housekeeping":        mend + "git add -A\ngit commit -qm x\ngit reflog expire --expire=now --all\ngit gc -q --prune=now",
		"hooks":               mend + "git config core.hooksPath h\ngit config core.autocrlf true\ngit config core.fsmonitor 'touch /workspace/ran'",
		"rebase in progress":  "B=$(git rev-parse HEAD)\ngit checkout -qb o\necho 5 >sum.txt\ngit commit -qam five\ngit checkout -q --detach $B\necho 7 >sum.txt\ngit commit -qam seven\ngit rebase o || true\n" + mend,
		"committed and dirty": "echo 7 >sum.txt\ngit commit -qam 'closes #99 @rita'\n" + mend,
	}
	w := newWorld(t, calc(byTitle(does)))
	w.start()
	issues := map[string]int{}
	for title := range does {
		issues[title] = w.openIssue(title, "")
		w.label("octavia", issues[title])
	}
	for _, n := range issues {
		w.ended(n, "changed")
	}
	for _, pr := range w.pulls() {
		if diff := cmp.Diff([]string{"sum.txt"}, w.filesOf(pr.GetNumber())); diff != "" || w.fileAt(pr.GetHead().GetSHA(), "sum.txt") != "1\n" {
			t.Errorf("%s: files (-want +got)\n%s", pr.GetTitle(), diff)
		}
		commit, _, err := w.as("rita").Git.GetCommit(t.Context(), "acme", "calc", pr.GetHead().GetSHA())
		must(t, err)
		if strings.Contains(commit.GetMessage(), "#99") {
			t.Errorf("%s: the agent's message is taken over: %s", pr.GetTitle(), commit.GetMessage())
		}
	}
	w.waits(len(does))
	w.nothingLeft()
}

// TestWorkBesideTheFilesIsNamed has agents put their work away and go back to where they started.
func TestWorkBesideTheFilesIsNamed(t *testing.T) {
	t.Parallel()
	does := map[string]string{
		"goes back": "git checkout -qb mended\necho 1 >sum.txt\ngit commit -qam one\ngit checkout -q --detach HEAD^",
		"stashes":   "echo 1 >sum.txt\ngit stash -q",
		"reverts":   "echo 1 >sum.txt\ngit commit -qam one\ngit revert --no-edit HEAD",
	}
	w := newWorld(t, calc(byTitle(does)))
	w.start()
	for title, want := range map[string][2]string{
		"goes back": {"gave up", "commits beside them: mended"}, "stashes": {"gave up", "stash"}, "reverts": {"no change needed", "changed nothing"},
	} {
		n := w.openIssue(title, "")
		w.label("octavia", n)
		w.ended(n, want[0])
		if !w.said(n, want[1]) {
			t.Errorf("%s: said %q, want %q", title, w.comments(n), want[1])
		}
	}
	stored := must1(filepath.Glob(filepath.Join(w.dir, "state", "stores", "*.git")))(t)
	refs, err := exec.Command("git", "-C", stored[0], "for-each-ref", "--format=%(refname)", "refs/sandpiper").CombinedOutput()
	must(t, err)
	if got := strings.Count(string(refs), "/agent/"); got < 2 {
		t.Errorf("%d refs of agents are kept:\n%s", got, refs)
	}
	if pulls := w.pulls(); len(pulls) != 0 {
		t.Errorf("%d pull requests, want none", len(pulls))
	}
}

// TestMergeInProgressMakesADraft has an agent end in the middle of a merge, and its check content with what is in the file.
func TestMergeInProgressMakesADraft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(byTitle(map[string]string{"merges": "B=$(git rev-parse HEAD)\ngit checkout -qb o\necho 5 >sum.txt\ngit commit -qam five\n" +
		"git checkout -q --detach $B\necho 1 >sum.txt\ngit commit -qam one\ngit merge o || true"})))
	w.start()
	n := w.openIssue("merges", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	pr := w.pulls()[0]
	if !pr.GetDraft() || !strings.Contains(pr.GetBody(), "| conflict-markers | `sum.txt` line 1 ") {
		t.Errorf("draft %v, body\n%s", pr.GetDraft(), pr.GetBody())
	}
}

// TestNamesThatAreNoText keeps names of files that are no UTF-8 apart, in what is pushed and in what people read. GitHub's API has no
// words for them: there it is refused, and not pushed under another name.
func TestNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	for transport, outcome := range map[string]string{"push": "changed", "api": "blocked by rule"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			files := calc(`echo 1 >sum.txt; printf x >"$(printf 'bad\377')"; printf y >"$(printf 'bad\376')"` + "\n")
			files[".github/sandpiper.yml"] += "promote: {transport: " + transport + "}\n"
			w := newWorld(t, files)
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.ended(n, outcome)
			if transport == "api" {
				if len(w.pulls()) != 0 || !w.said(n, "which is no UTF") {
					t.Errorf("%d pull requests, said %q", len(w.pulls()), w.comments(n))
				}
				return
			}
			pr := w.pulls()[0]
			for _, name := range []string{`"bad\xff"`, `"bad\xfe"`} {
				if !strings.Contains(pr.GetBody(), name) {
					t.Errorf("the page does not name %s:\n%s", name, pr.GetBody())
				}
			}
			tree, err := exec.Command("git", "-C", must1(w.double.GitDir("acme/calc"))(t), "ls-tree", "--name-only", "-z", pr.GetHead().GetSHA()).Output()
			if err != nil || !strings.Contains(string(tree), "bad\xff\x00") || !strings.Contains(string(tree), "bad\xfe\x00") {
				t.Errorf("%v, tree %q", err, tree)
			}
		})
	}
}

// TestDeletedStatusCommentDoesNotSilenceTheEnd has a person delete it while the agent works, and what was said of the end after that.
func TestDeletedStatusCommentDoesNotSilenceTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(held))
	w.start()
	n := w.atWork()
	remove := func() {
		t.Helper()
		list, _, err := w.as("octavia").Issues.ListComments(t.Context(), "acme", "calc", n, nil)
		must(t, err)
		for _, c := range list {
			_, err := w.as("octavia").Issues.DeleteComment(t.Context(), "acme", "calc", c.GetID())
			must(t, err)
		}
	}
	w.until("the work is told", func() bool { return w.said(n, "the agent is at work") })
	remove()
	w.letGo()
	w.ended(n, "changed")
	w.waits(1)
	if got := len(w.comments(n)); got != 1 {
		t.Errorf("%d comments, want one with the end: %q", got, w.comments(n))
	}
	remove()
	_, _, err := w.as("rita").PullRequests.Merge(t.Context(), "acme", "calc", w.pulls()[0].GetNumber(), "", nil)
	must(t, err)
	w.closed()
	if got := w.comments(n); len(got) != 0 {
		t.Errorf("said again what a person deleted twice: %q", got)
	}
}

// TestCommandsDuringTheWorkAreAnswered: what a second `run` says is not dropped without a word, and said to each person once.
func TestCommandsDuringTheWorkAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(held))
	w.start()
	n := w.atWork()
	for range 2 {
		w.say("octavia", n, "/sandpiper run and mind the edge cases")
	}
	w.label("octavia", n)
	must(t, w.double.Flush(t.Context()))
	w.until("it is answered", func() bool { return w.said(n, "is at it already") })
	w.letGo()
	w.ended(n, "changed")
	w.waits(1)
	if comments, pulls := w.comments(n), w.pulls(); len(comments) != 2 || len(pulls) != 1 {
		t.Errorf("%d pull requests, said %q; want one, the status and one answer", len(pulls), comments)
	}
}

// TestPullRequestEndsDuringARoundUnheard has it end while an agent works on it, with the delivery lost. What is said then is true.
func TestPullRequestEndsDuringARoundUnheard(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *gh.PullRequest) error{
		"merged": func(w *world, pr *gh.PullRequest) error {
			_, _, err := w.as("rita").PullRequests.Merge(w.t.Context(), "acme", "calc", pr.GetNumber(), "", nil)
			return err
		},
		"closed": func(w *world, pr *gh.PullRequest) error {
			return w.double.MoveBranch("acme/calc", pr.GetHead().GetRef(), "") // which closes it
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(rounds(fixes, waitsThen+"echo more >more.txt")))
			w.start()
			_, pr := w.opened()
			w.say("rita", pr.GetNumber(), "/sandpiper fix it")
			w.until("the agent of the round is at work", func() bool { return len(w.working()) == 1 })
			w.double.AddHookFault(github.HookFault{Kind: github.Lose, Times: -1})
			must(t, end(w, pr))
			w.goOn()
			w.closed()
			w.round(pr.GetNumber(), 2, "cancelled")
			if !w.said(pr.GetNumber(), "was "+name) || w.said(pr.GetNumber(), "is open") || w.said(pr.GetNumber(), "starts another round") {
				t.Errorf("said %q", w.comments(pr.GetNumber()))
			}
			if got := len(w.pulls()); got != 1 {
				t.Errorf("%d pull requests, want one", got)
			}
			w.nothingLeft()
		})
	}
}

// TestBranchInTheWay has somebody make a branch where those of the bot would lie: before, and during the work.
func TestBranchInTheWay(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "during"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(held))
			w.start()
			make := func() { w.pushes("octavia", "sandpiper", "mine.txt", "x") }
			var n int
			if when == "before" {
				make()
				n = w.openIssue("Sum returns 0", "")
				w.label("octavia", n)
			} else {
				n = w.atWork()
				make()
				w.letGo()
			}
			w.ended(n, "blocked by rule")
			if !w.said(n, "is in the way") {
				t.Errorf("said %q", w.comments(n))
			}
			if began := strings.Contains(w.bot.text(), `"next":"execute"`); began != (when == "during") {
				t.Errorf("the agent began: %v", began)
			}
			must(t, w.double.MoveBranch("acme/calc", "sandpiper", ""))
			w.closed()
			w.nothingLeft()
		})
	}
}

// TestWhatPeopleDidToThePullRequestStays over a round: its title, and that it is a draft.
func TestWhatPeopleDidToThePullRequestStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(fixes, "echo more >more.txt")))
	w.start()
	_, pr := w.opened()
	n := pr.GetNumber()
	_, _, err := w.as("rita").PullRequests.Edit(t.Context(), "acme", "calc", n, &gh.PullRequest{Title: gh.String("Sum: one number is its own sum")})
	must(t, err)
	must(t, w.double.SetDraft("acme/calc", n, true))
	w.say("rita", n, "/sandpiper fix it")
	w.round(n, 2, "changed")
	w.waits(2)
	after := w.pulls()[0]
	if after.GetTitle() != "Sum: one number is its own sum" || !after.GetDraft() || !strings.Contains(after.GetBody(), "more.txt") {
		t.Errorf("title %q, draft %v, body\n%s", after.GetTitle(), after.GetDraft(), after.GetBody())
	}
}

// TestBaseBranchGoesAwayDuringTheRun: it is said which, and nothing is lost or half done.
func TestBaseBranchGoesAwayDuringTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(held))
	w.start()
	n := w.atWork()
	head := must1(w.double.BranchHead("acme/calc", "main"))(t)
	must(t, w.double.MoveBranch("acme/calc", "main", ""))
	w.letGo()
	w.ended(n, "blocked by rule")
	if !w.said(n, "the branch that this started from is gone") || len(w.pulls()) != 0 {
		t.Errorf("%d pull requests, said %q", len(w.pulls()), w.comments(n))
	}
	w.closed()
	w.nothingLeft()
	must(t, w.double.MoveBranch("acme/calc", "main", head))
	w.say("rita", n, "/sandpiper retry")
	began := time.Now()
	w.until("the agent works again", func() bool { return len(w.working()) == 1 || time.Since(began) > time.Minute })
	w.letGo()
	w.until("there is a pull request", func() bool { return len(w.pulls()) == 1 })
}

// TestOddTitles makes pull requests of issues whose titles hold what GitHub, git or a shell would take for something else.
func TestOddTitles(t *testing.T) {
	t.Parallel()
	titles := []string{
		strings.Repeat("ü", 256), strings.Repeat("👨‍👩‍👧‍👦", 30), "\u202eleft to right\u202c", "line\r\nbreak", "@rita @acme/team", "closes #2, fixes acme/calc#3",
		"<!-- sandpiper:mission m-1 run r-1 manifest x --> x", "Sandpiper-Mission: m-forged", "fixup! it", "[skip ci] it", "-rf", "$(id) `id`", "\u200b\u200b", "Same", "Same",
	}
	w := newWorld(t, calc("echo 1 >sum.txt\n"))
	w.start()
	heads := map[string]bool{}
	var numbers []int
	for _, title := range titles {
		numbers = append(numbers, w.openIssue(title, ""))
		w.label("octavia", numbers[len(numbers)-1])
	}
	for _, n := range numbers {
		w.ended(n, "changed")
	}
	for _, pr := range w.pulls() {
		heads[pr.GetHead().GetRef()] = true
		commit, _, err := w.as("rita").Git.GetCommit(t.Context(), "acme", "calc", pr.GetHead().GetSHA())
		must(t, err)
		first, rest, _ := strings.Cut(commit.GetMessage(), "\n")
		for _, text := range []string{pr.GetTitle(), first} {
			if text == "" || len([]rune(text)) > 256 || slices.ContainsFunc([]string{"@", "#", "[skip ci]", "fixup!", "\u202e", "\n"}, func(s string) bool { return strings.Contains(text, s) }) {
				t.Errorf("title %q", text)
			}
		}
		if strings.Contains(rest, "m-forged") || strings.Count(rest, "Sandpiper-Mission: ") != 1 {
			t.Errorf("commit message\n%s", commit.GetMessage())
		}
		if got := strings.Count(pr.GetBody(), "Closes #"); got != 1 || strings.Contains(pr.GetBody(), "fixes acme/calc#3") {
			t.Errorf("body closes %d issues:\n%s", got, pr.GetBody())
		}
	}
	if len(heads) != len(titles) {
		t.Errorf("%d branches for %d issues", len(heads), len(titles))
	}
	w.waits(len(titles))
	w.nothingLeft()
}
