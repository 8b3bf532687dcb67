package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// These are failures that bots of this kind had in public; each names where it was told.

// TestCase02NoLoopWithAnotherBot has a bot, and then an automation with a person's account, ask again and again
// (anthropics/claude-code#85760).
func TestCase02NoLoopWithAnotherBot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	helper := w.helper()
	w.start()
	n := w.openIssue("Sum returns 0", "")
	_, _, err := helper.Issues.CreateComment(t.Context(), "acme", "calc", n, &gh.IssueComment{Body: gh.String("/sandpiper run")})
	must(t, err)
	w.until("the bot has ignored the other bot", func() bool { return strings.Contains(w.bot.text(), "comment by a bot: helper[bot]") })

	const asked = 25
	for range asked {
		w.say("octavia", n, "/sandpiper status")
	}
	w.until("all have been handled", func() bool {
		return strings.Count(w.bot.text(), `"event":"issue_comment","action":"created","outcome"`) == asked
	})
	if got, want := len(w.comments(n)), 20+1; got != want {
		t.Errorf("%d comments for %d commands, want %d answers and the note", got, asked, want)
	}
	if !w.said(n, "automations that answer each other") || strings.Contains(w.bot.text(), "begun") {
		t.Errorf("said %q", w.comments(n))
	}
}

// TestCase02UnknownCommandsAreAnsweredTwice has a script of a person write a command that there is not, again and again.
func TestCase02UnknownCommandsAreAnsweredTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	for range 6 {
		w.say("octavia", n, "/sandpiper zork")
	}
	w.until("all have been handled", func() bool {
		return strings.Count(w.bot.text(), `"event":"issue_comment","action":"created","outcome"`) == 6
	})
	if got := w.comments(n); len(got) != 2 || !strings.Contains(got[1], "for an hour I do not answer") || strings.Contains(got[0], "for an hour I do not answer") {
		t.Errorf("said %q, want the help twice and, at last, that there is no more", got)
	}
	w.say("rita", n, "/sandpiper zork")
	w.until("another person is answered", func() bool { return len(w.comments(n)) == 3 })
	w.say("octavia", n, "/sandpiper status")
	w.until("what is a command is answered", func() bool { return w.said(n, "no mission here yet") })
}

// TestCase04OtherLabelsChangeNothing has others put labels on and take them off while the agent works (Mentra-Community/MentraOS#3174).
func TestCase04OtherLabelsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(waitsThen+fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.until("the agent is at work", func() bool { return len(w.working()) == 1 })
	w.put("octavia", n, "in progress")
	w.label("rita", n)
	w.handled(3)
	issue, _, err := w.as("rita").Issues.Get(t.Context(), "acme", "calc", n)
	must(t, err)
	if len(issue.Labels) != 1 || issue.Labels[0].GetName() != "in progress" {
		t.Errorf("labels %v, want the one that is not ours", issue.Labels)
	}
	_, err = w.as("octavia").Issues.RemoveLabelForIssue(t.Context(), "acme", "calc", n, "in progress")
	must(t, err)
	w.goOn()
	w.ended(n, "changed")
	if pulls, agents := len(w.pulls()), strings.Count(w.bot.text(), `"step":"execute","next":"inspect"`); pulls != 1 || agents != 1 {
		t.Errorf("%d pull requests by %d agents, want one", pulls, agents)
	}
}

// commits is an agent that leaves commits with a copy, a rename and names that git quotes, and then a work tree that is not clean
// (github/gh-aw#26156).
const commits = `set -eu
git() { command git -c user.name=a -c user.email=a@example.com -c core.quotepath=true "$@"; }
cp README.md copy.md; git add -A; git commit -qm "copy"
git mv README.md "re\"ad'me.md"; printf 'x' >"tab	and	\303\274.txt"; git add -A; git commit -qm "rename, and odd names"
echo 1 >sum.txt; printf 'more\n' >>copy.md; chmod +x copy.md; ln -s copy.md link
`

func TestCase17CommittedTreeIsPushedByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(commits))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	clone := filepath.Join(t.TempDir(), "clone")
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	stored := must1(w.double.GitDir("acme/calc"))(t)
	git(".", "clone", "-q", stored, clone)
	script := exec.Command("sh", "-c", commits+"git add -A")
	script.Dir = clone
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, want := git(stored, "rev-parse", w.pulls()[0].GetHead().GetSHA()+"^{tree}"), git(clone, "write-tree"); got != want {
		t.Errorf("tree %s, want %s:\n%s", got, want, git(stored, "ls-tree", "-r", got))
	}
}

// TestCase18SubmoduleStaysWhatItIs has a submodule that nobody here can fetch (peter-evans/create-pull-request#3353).
func TestCase18SubmoduleStaysWhatItIs(t *testing.T) {
	t.Parallel()
	const pointer = "cccccccccccccccccccccccccccccccccccccccc"
	w := newWorld(t, calc(fixes, ".gitmodules", "[submodule \"lib\"]\n\tpath = lib\n\turl = https://github.example/secret/lib\n"))
	stored := must1(w.double.GitDir("acme/calc"))(t)
	index := filepath.Join(t.TempDir(), "index")
	at := must1(w.double.BranchHead("acme/calc", "main"))(t)
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", stored, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+index)
		return strings.TrimSpace(string(must1(cmd.Output())(t)))
	}
	git("read-tree", at)
	git("update-index", "--add", "--cacheinfo", "160000,"+pointer+",lib")
	must(t, w.double.MoveBranch("acme/calc", "main", git("commit-tree", git("write-tree"), "-p", at, "-m", "a submodule")))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	pr := w.pulls()[0]
	if got, want := git("ls-tree", pr.GetHead().GetSHA(), "lib"), "160000 commit "+pointer+"\tlib"; got != want {
		t.Errorf("the pull request has %q, want %q", got, want)
	}
	if !strings.Contains(pr.GetBody(), "submodules are not fetched") {
		t.Errorf("the pull request does not say that the agent worked without it:\n%s", pr.GetBody())
	}
}

// TestCase21ForkWithTheNameOfABaseBranch has a fork whose branch is called main (anthropics/claude-code-action#223).
func TestCase21ForkWithTheNameOfABaseBranch(t *testing.T) {
	t.Parallel()
	if !containers() {
		t.Skip("a stranger's commits need a container, and none can be run here")
	}
	w := newWorld(t, calc(fixes))
	must1(w.double.Fork("acme/calc", "toby"))(t)
	head := must1(w.double.Push("toby/calc", github.CommitOptions{Branch: "main", Login: "toby", Message: "fix", Files: map[string]string{"sum.txt": "1\n"}}))(t)
	base := must1(w.double.BranchHead("acme/calc", "main"))(t)
	pr, _, err := w.as("toby").PullRequests.Create(t.Context(), "acme", "calc", &gh.NewPullRequest{Title: gh.String("Fix"), Head: gh.String("toby:main"), Base: gh.String("main")})
	must(t, err)
	w.start()
	w.label("octavia", pr.GetNumber())
	w.until("the checks of the fork's head have passed", func() bool {
		passed := 0
		for _, r := range w.checkRuns(head) {
			if r.GetConclusion() == "success" {
				passed++
			}
		}
		return passed == 2
	})
	w.say("octavia", pr.GetNumber(), "/sandpiper fix it")
	w.until("the bot answers", func() bool { return len(w.comments(pr.GetNumber())) > 0 })
	if got := must1(w.double.BranchHead("acme/calc", "main"))(t); got != base {
		t.Errorf("main moved from %s to %s", base, got)
	}
	if got := must1(w.double.BranchHead("toby/calc", "main"))(t); got != head {
		t.Errorf("the fork's branch moved from %s to %s", head, got)
	}
}

// TestCase25SiblingsSurviveGitHousekeeping has one agent tidy all that it can reach while another works (xorq-labs/xorq#1974).
func TestCase25SiblingsSurviveGitHousekeeping(t *testing.T) {
	t.Parallel()
	tidies := `if grep -q tidy "$SANDPIPER_PROMPT_FILE" /sandpiper/task.md; then
git worktree prune --expire=now -v; git worktree list; git reflog expire --expire=now --all; git gc -q --prune=now --aggressive || true; git repack -adq || true
rm -rf "$(git rev-parse --git-common-dir)/worktrees" || true
echo 1 >sum.txt; exit
fi
` + waitsThen + "git status --short; git log --oneline -1\n" + fixes
	w := newWorld(t, calc(tidies))
	w.start()
	first := w.openIssue("Sum returns 0", "")
	w.label("octavia", first)
	w.until("the first agent is at work", func() bool { return len(w.working()) == 1 })
	waits := w.working()[0]
	second := w.openIssue("please tidy up", "")
	w.label("octavia", second)
	w.ended(second, "changed")
	must(t, os.WriteFile(filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(waits))), "task", "go"), nil, 0o644))
	w.ended(first, "changed")
	w.waits(2)
	w.nothingLeft()
}

// TestCase31ProgressDoesNotFlood has an agent that tells of its progress hundreds of times (braintrustdata/eval-action#48: 259 edits).
func TestCase31ProgressDoesNotFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("i=0; while [ $i -lt 300 ]; do echo step $i; i=$((i+1)); sleep 0.01; done\n"+fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	w.waits(1)
	if got := w.double.CallCount("PATCH", "/repos/{owner}/{repo}/issues/comments/{comment_id}"); got < 1 || got > 15 {
		t.Errorf("%d edits of the status comment, want some and few", got)
	}
}

// TestCase31ProgressOfACheckDoesNotFlood has a check of a pull request tell of its progress hundreds of times.
func TestCase31ProgressOfACheckDoesNotFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes, ".github/sandpiper.yml", "agent: sh agent.sh\nchecks:\n  - {name: long, run: 'i=0; while [ $i -lt 300 ]; do echo step $i; i=$((i+1)); sleep 0.01; done'}\n"))
	w.start()
	head := w.pushes("octavia", "fix", "sum.txt", "1\n")
	pr, _, err := w.as("octavia").PullRequests.Create(t.Context(), "acme", "calc", &gh.NewPullRequest{Title: gh.String("Fix"), Head: gh.String("fix"), Base: gh.String("main")})
	must(t, err)
	w.label("octavia", pr.GetNumber())
	w.until("the check has passed", func() bool {
		runs := w.checkRuns(head)
		return len(runs) == 1 && runs[0].GetConclusion() == "success"
	})
	if got := w.double.CallCount("PATCH", "/repos/{owner}/{repo}/check-runs/{check_run_id}"); got < 2 || got > 15 {
		t.Errorf("%d updates of the Check Run, want that it began and that it passed, and few more", got)
	}
}

// TestCase34BlockedHostIsNamed has a check that needs a host which the policy does not open (microsoft/vscode-copilot-release#10047).
func TestCase34BlockedHostIsNamed(t *testing.T) {
	t.Parallel()
	asks := `bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf "CONNECT packages.example:443 HTTP/1.1\r\nHost: packages.example:443\r\n\r\n" >&3; head -1 <&3; exit 1'`
	policy := fmt.Sprintf("agent: sh agent.sh\nnetwork: [go]\nchecks:\n  - name: install\n    run: %q\n    required: true\n", asks)
	w := newWorld(t, calc(fixes, ".github/sandpiper.yml", policy))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	w.waits(1)
	pr := w.pulls()[0]
	runs := w.checkRuns(pr.GetHead().GetSHA())
	if len(runs) != 1 {
		t.Fatalf("Check Runs %v, want one", runs)
	}
	page := runs[0].GetOutput().GetTitle() + "\n" + runs[0].GetOutput().GetSummary()
	for _, want := range []string{"blocked host packages.example:443 while running install", "`network: [\"go\", \"packages.example\"]`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the Check Run does not say %q:\n%s", want, page)
		}
	}
}

// TestCase39ProcessesDieWithTheRun has an agent that starts 43 services and leaves them (Untrivial-ai/agent-orchestrator#2652).
func TestCase39ProcessesDieWithTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(""))
	mark := fmt.Sprintf("9%d", os.Getpid()) // seconds that no other process sleeps
	w.pushes("octavia", "main", "agent.sh", "i=0; while [ $i -lt 43 ]; do setsid sleep "+mark+" >/dev/null 2>&1 </dev/null & i=$((i+1)); done\n"+
		"while [ $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx "+mark+") -lt 43 ]; do sleep 0.05; done\necho 1 >sum.txt\n")
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	if left := processesOf("sleep\x00" + mark); len(left) > 0 {
		t.Errorf("%d of the agent's processes live on: %v", len(left), left)
	}
	w.waits(1)
	w.nothingLeft()
}
