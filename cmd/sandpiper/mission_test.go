package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// calc is a repository whose checks need nothing but a shell, so that these tests are about missions and not about compilers.
func calc(agent string, more ...string) map[string]string {
	files := map[string]string{
		"sum.txt": "0\n", "README.md": "# calc\n", "agent.sh": agent,
		".github/sandpiper.yml": strings.Join([]string{
			"agent: sh agent.sh",
			"checks:",
			"  - {name: sum, run: grep -qx 1 sum.txt, required: true}",
			"  - {name: lint, run: 'echo \"sum.txt:1: warning: magic number\"'}",
		}, "\n") + "\n",
	}
	for i := 0; i < len(more); i += 2 {
		files[more[i]] = more[i+1]
	}
	return files
}

const fixes = "cat $SANDPIPER_PROMPT_FILE >/dev/null\necho fixing\necho 1 >sum.txt\n"

func TestLabelledIssueBecomesAPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0 for a single number", "It should be 1. @rita")
	w.label("octavia", n)
	w.ended(n, "changed")

	pulls := w.pulls()
	if len(pulls) != 1 {
		t.Fatalf("%d pull requests, want 1", len(pulls))
	}
	pr := pulls[0]
	if diff := cmp.Diff([]any{"sandpiper/1-sum-returns-0-for-a-single-number-1", "main", false, w.app.BotLogin()}, []any{pr.GetHead().GetRef(), pr.GetBase().GetRef(), pr.GetDraft(), pr.GetUser().GetLogin()}); diff != "" {
		t.Errorf("pull request (-want +got):\n%s", diff)
	}
	for _, part := range []string{"Closes #1", "sum.txt", "sha256:", "octavia"} {
		if !strings.Contains(pr.GetBody(), part) {
			t.Errorf("the pull request does not say %q:\n%s", part, pr.GetBody())
		}
	}
	files, _, err := w.as("rita").PullRequests.ListFiles(t.Context(), "acme", "calc", pr.GetNumber(), nil)
	must(t, err)
	if len(files) != 1 || files[0].GetFilename() != "sum.txt" {
		t.Errorf("files of the pull request: %v", files)
	}
	commit, _, err := w.as("rita").Repositories.GetCommit(t.Context(), "acme", "calc", pr.GetHead().GetSHA(), nil)
	must(t, err)
	for _, trailer := range []string{"Sandpiper-Mission: m-", "Sandpiper-Run: r-", "Co-authored-by: octavia <"} {
		if !strings.Contains(commit.GetCommit().GetMessage(), trailer) {
			t.Errorf("the commit lacks %q:\n%s", trailer, commit.GetCommit().GetMessage())
		}
	}
	got := map[string]string{}
	for _, run := range w.checkRuns(pr.GetHead().GetSHA()) {
		if details := run.GetDetailsURL(); !strings.Contains(details, "/acme/calc/issues/1#issuecomment-") {
			t.Errorf("%s leads to %s, want the mission's comment", run.GetName(), details)
		}
		got[run.GetName()] = fmt.Sprintf("%s %s %d", run.GetStatus(), run.GetConclusion(), run.GetOutput().GetAnnotationsCount())
	}
	if diff := cmp.Diff(map[string]string{"sandpiper / sum": "completed success 0", "sandpiper / lint": "completed success 1"}, got); diff != "" {
		t.Errorf("Check Runs (-want +got):\n%s", diff)
	}
	issue, _, err := w.as("rita").Issues.Get(t.Context(), "acme", "calc", n)
	must(t, err)
	if len(issue.Labels) != 0 {
		t.Errorf("labels after the mission was taken up: %v", issue.Labels)
	}
	if got := len(w.comments(n)); got != 1 {
		t.Errorf("%d comments, want one that is edited in place", got)
	}
	w.nothingLeft()

	// A person merges; the mission is over, and the label starts a new one.
	_, _, err = w.as("rita").PullRequests.Merge(t.Context(), "acme", "calc", pr.GetNumber(), "", &gh.PullRequestOptions{SHA: pr.GetHead().GetSHA()})
	must(t, err)
	w.until("the end is told", func() bool { return w.said(n, "merged by rita") })
	if code := w.bot.stop(); code != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", code)
	}
}

func TestTenIssuesAtOnceGiveTenPullRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("echo $RANDOM >made.txt\necho 1 >sum.txt\n"))
	w.start()
	var numbers []int
	for i := range 10 {
		numbers = append(numbers, w.openIssue(fmt.Sprintf("Issue %d", i), ""))
	}
	var wg sync.WaitGroup
	for _, n := range numbers {
		wg.Go(func() { w.label("octavia", n) })
	}
	wg.Wait()
	for _, n := range numbers {
		w.ended(n, "changed")
	}
	heads := map[string]bool{}
	for _, pr := range w.pulls() {
		heads[pr.GetHead().GetRef()] = true
	}
	if len(heads) != 10 || len(w.pulls()) != 10 {
		t.Errorf("%d pull requests from %d branches, want 10 from 10", len(w.pulls()), len(heads))
	}
	w.until("the last mission is archived", func() bool {
		left, _ := os.ReadDir(filepath.Join(w.dir, "state", "runs"))
		return len(left) == 0
	})
	w.nothingLeft()
}

func TestCase03OneMissionForManyDeliveriesAndPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.double.AddHookFault(github.HookFault{Kind: "duplicate", Times: 4})
	w.start()
	n := w.openIssue("Sum returns 0", "")
	var wg sync.WaitGroup
	for _, login := range []string{"octavia", "rita"} {
		wg.Go(func() { w.label(login, n) })
	}
	wg.Wait()
	must(t, w.double.Flush(t.Context()))
	w.ended(n, "changed")
	if got := len(w.pulls()); got != 1 {
		t.Errorf("%d pull requests, want 1", got)
	}
	if got := len(w.comments(n)); got != 1 {
		t.Errorf("%d comments, want 1: %q", got, w.comments(n))
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("while [ ! -e /sandpiper/go ]; do sleep 0.1; done\n"+fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.say("octavia", n, "/sandpiper status")
	w.until("there is nothing yet", func() bool { return w.said(n, "no mission here yet") })
	w.say("octavia", n, "please\n/sandpiper run with care")
	w.until("the agent works", func() bool { return w.said(n, "the agent is at work") })
	w.say("octavia", n, "/sandpiper help")
	w.until("help is given", func() bool { return w.said(n, "| command |") })
	w.say("octavia", n, "/sandpiper dance")
	w.until("an unknown command is named", func() bool { return w.said(n, "no command `dance`") })
	w.say("octavia", n, "/sandpiper cancel")
	w.ended(n, "cancelled")
	w.until("it is closed", func() bool { return strings.Contains(w.bot.text(), `"next":"ended"`) })
	w.nothingLeft()
	w.say("octavia", n, "/sandpiper fix")
	w.until("who comes too late is told how to go on", func() bool { return w.said(n, "has ended already (cancelled). `/sandpiper retry` starts again") })
	w.say("octavia", n, "/sandpiper retry")
	w.until("a second run", func() bool {
		return len(must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*/exec/agent/log")))(t)) == 1
	})
	w.say("rita", n, "/sandpiper discard")
	w.until("discarded", func() bool { return w.said(n, "discarded by rita") })
}

// TestLabelledPullRequestIsChecked has the checks of the default branch run on a head, on the next one, and again.
func TestLabelledPullRequestIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	octavia := w.as("octavia")
	push := func(content string) string {
		opts := &gh.RepositoryContentFileOptions{Message: gh.String("change"), Content: []byte(content), Branch: gh.String("fix")}
		if file, _, _, err := octavia.Repositories.GetContents(context.Background(), "acme", "calc", "sum.txt", &gh.RepositoryContentGetOptions{Ref: "fix"}); err == nil {
			opts.SHA = file.SHA
		}
		made, _, err := octavia.Repositories.UpdateFile(context.Background(), "acme", "calc", "sum.txt", opts)
		must(t, err)
		return made.GetSHA()
	}
	main, _, err := octavia.Git.GetRef(t.Context(), "acme", "calc", "heads/main")
	must(t, err)
	_, _, err = octavia.Git.CreateRef(t.Context(), "acme", "calc", &gh.Reference{Ref: gh.String("refs/heads/fix"), Object: main.Object})
	must(t, err)
	first := push("2\n")
	pr, _, err := octavia.PullRequests.Create(t.Context(), "acme", "calc", &gh.NewPullRequest{Title: gh.String("Fix"), Head: gh.String("fix"), Base: gh.String("main")})
	must(t, err)
	w.label("octavia", pr.GetNumber())
	conclusions := func(sha string) (got []string) {
		for _, run := range w.checkRuns(sha) {
			got = append(got, run.GetName()+" "+run.GetStatus()+" "+run.GetConclusion())
		}
		slices.Sort(got)
		return got
	}
	settled := func(sha string, want ...string) {
		t.Helper()
		w.until(fmt.Sprintf("the checks of %.7s are %q", sha, want), func() bool { return cmp.Equal(want, conclusions(sha)) })
	}
	settled(first, "sandpiper / lint completed success", "sandpiper / sum completed failure")
	second := push("1\n")
	settled(second, "sandpiper / lint completed success", "sandpiper / sum completed success")

	runs := w.checkRuns(second)
	i := slices.IndexFunc(runs, func(r *gh.CheckRun) bool { return r.GetName() == "sandpiper / sum" })
	_, err = octavia.Checks.ReRequestCheckRun(t.Context(), "acme", "calc", runs[i].GetID())
	must(t, err)
	settled(second, "sandpiper / lint completed success", "sandpiper / sum completed success", "sandpiper / sum completed success")
	if got := len(w.comments(pr.GetNumber())); got != 0 {
		t.Errorf("%d comments on a pull request whose Check Runs say it all", got)
	}
	for _, state := range []string{"closed", "open"} { // it is checked as before, without another label
		_, _, err = octavia.PullRequests.Edit(t.Context(), "acme", "calc", pr.GetNumber(), &gh.PullRequest{State: &state})
		must(t, err)
		if state == "closed" {
			w.until("its mission has ended", func() bool { return strings.Contains(w.bot.text(), "the pull request was closed by octavia") })
		}
	}
	settled(second, "sandpiper / lint completed success", "sandpiper / lint completed success", "sandpiper / sum completed success", "sandpiper / sum completed success", "sandpiper / sum completed success")
}

func TestCase05TriggerAmongOtherLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.put("octavia", n, "bug", "help wanted", "sandpiper", "good first issue")
	w.ended(n, "changed")
	issue, _, err := w.as("rita").Issues.Get(t.Context(), "acme", "calc", n)
	must(t, err)
	if len(w.pulls()) != 1 || len(issue.Labels) != 3 {
		t.Errorf("%d pull requests and %d labels, want one and the three that are not ours", len(w.pulls()), len(issue.Labels))
	}
}

// TestCase32OddNames has a default branch that is not main, and a label of the policy's own in another case.
func TestCase32OddNames(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, "_release/v1", calc(fixes, ".github/sandpiper.yml", "agent: sh agent.sh\nchecks: []\ntriggers: {labels: [agent]}\n"))
	w.start()
	n := w.openIssue("fix/#12+a@b: `Ünïcode` [x] & <y> ", "")
	w.put("octavia", n, "Agent")
	w.ended(n, "changed")
	if pulls := w.pulls(); len(pulls) != 1 || pulls[0].GetBase().GetRef() != "_release/v1" {
		t.Errorf("pull requests %v, want one on _release/v1", pulls)
	}
}
