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

func TestCase23KilledDuringTheAgentsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("echo working\nwhile [ ! -e /sandpiper/go ] && [ ! -e go ]; do sleep 0.1; done\n"+fixes))
	w.env = []string{"SANDPIPER_LOG_LEVEL=debug"}
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.until("the agent works", func() bool {
		return len(must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*/exec/agent/log")))(t)) == 1
	})
	w.bot.kill()
	w.start()
	// The agent has gone on meanwhile; now it may finish.
	run := must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*")))(t)[0]
	must(t, os.WriteFile(filepath.Join(run, filepath.Base(run), "go"), nil, 0o644))
	w.ended(n, "changed")
	if got := len(w.pulls()); got != 1 {
		t.Errorf("%d pull requests, want 1", got)
	}
}

// TestBadEnds are missions that cannot end in a pull request. Each is said on the issue, once, with a class and what to do.
func TestBadEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files   map[string]string
		prepare func(*world)
		outcome string
		says    string
	}{
		"agent fails":          {calc("echo broken >sum.txt\necho no idea >&2\nexit 1\n"), nil, "gave up", "no idea"},
		"agent changes naught": {calc("echo looked at it\n"), nil, "no change needed", "changed nothing"},
		"agent not found":      {calc("", ".github/sandpiper.yml", "agent: [./no-such-agent]\n"), nil, "gave up", "could not start"},
		"agent never ends":     {calc("trap '' TERM\nwhile :; do sleep 1; done\n", ".github/sandpiper.yml", "agent: sh agent.sh\nbudget: {time: 1s}\n"), nil, "out of budget", ""},
		"agent floods":         {calc("yes floooooooooooooooooooooooooooood\n", ".github/sandpiper.yml", "agent: sh agent.sh\nbudget: {output: 2MB}\n"), nil, "out of budget", ""},
		"policy with a typo":   {calc("", ".github/sandpiper.yml", "agnet: sh agent.sh\n"), nil, "blocked by policy", "agent"},
		"no agent":             {calc("", ".github/sandpiper.yml", "checks: []\n"), nil, "blocked by policy", "agent"},
		"no commits":           {nil, nil, "blocked by rule", "no commit"},
		"named agent":          {calc("", ".github/sandpiper.yml", "agent: claude\n"), nil, "blocked by policy", "network"},
		"workflow file":        {calc("mkdir -p .github/workflows\necho on: push >.github/workflows/ci.yml\n"), nil, "blocked by rule", "workflows"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.files)
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.ended(n, c.outcome)
			if !w.said(n, c.says) {
				t.Errorf("the issue does not say %q: %q", c.says, w.comments(n))
			}
			if got := len(w.comments(n)); got != 1 {
				t.Errorf("%d comments, want 1", got)
			}
			if got := len(w.pulls()); got != 0 {
				t.Errorf("%d pull requests, want none", got)
			}
			w.until("the mission is closed", func() bool { return strings.Contains(w.bot.text(), `"next":"ended"`) })
			w.nothingLeft()
		})
	}
}

func TestFailedRequiredCheckMakesADraft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("echo 2 >sum.txt\n"))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	if pulls := w.pulls(); len(pulls) != 1 || !pulls[0].GetDraft() {
		t.Errorf("pull requests: %v, want one draft", pulls)
	}
}

func TestCase28WhoMayStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	for range 2 {
		w.say("toby", n, "/sandpiper run")
	}
	w.until("the refusal is said", func() bool { return w.said(n, "write access") })
	must(t, w.double.Flush(t.Context()))
	w.until("all is handled", func() bool { return strings.Count(w.bot.text(), "refused: no write access") == 2 })
	if got := len(w.comments(n)); got != 1 {
		t.Errorf("%d comments, want one refusal: %q", got, w.comments(n))
	}
	// An admin whose membership is private is let in all the same: the permission decides, not the association.
	w.say("olga", n, "/sandpiper run please")
	w.ended(n, "changed")
}

func TestCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("while [ ! -e go ]; do sleep 0.1; done\n"+fixes))
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
}

// TestKilledAtEveryStep has one mission survive kill -9 at each border between two steps, and once in the middle of each.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	for _, next := range []string{"create", "execute", "inspect", "verify", "promote", "report", "archive"} {
		w.until("the next step is "+next, func() bool {
			return strings.Contains(w.bot.text(), `"next":"`+next+`"`) || strings.Contains(w.bot.text(), `"next":"waiting"`)
		})
		w.bot.kill()
		w.start()
	}
	w.ended(n, "changed")
	pulls := w.pulls()
	if len(pulls) != 1 || len(w.comments(n)) != 1 {
		t.Fatalf("%d pull requests and %d comments, want one of each", len(pulls), len(w.comments(n)))
	}
	w.until("the checks are reported", func() bool { return len(w.checkRuns(pulls[0].GetHead().GetSHA())) == 2 })
	for _, run := range w.checkRuns(pulls[0].GetHead().GetSHA()) {
		if run.GetStatus() != "completed" || run.GetOutput().GetAnnotationsCount() > 1 {
			t.Errorf("Check Run %s: %s with %d annotations", run.GetName(), run.GetStatus(), run.GetOutput().GetAnnotationsCount())
		}
	}
	w.until("the sandboxes are archived", func() bool {
		left, _ := os.ReadDir(filepath.Join(w.dir, "state", "runs"))
		return len(left) == 0
	})
	w.nothingLeft()
}

// TestAnswersThatAreLost has GitHub do what it is asked and fail to say so, at each call that makes something.
func TestAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	for _, path := range []string{"/issues/1/comments$", "/pulls$", "/check-runs$", "git-receive-pack$"} {
		for _, method := range []string{"POST", "GIT"} {
			must(t, w.double.AddFault(github.Fault{Method: method, Path: path, Status: 502, AfterEffect: true}))
		}
	}
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("rita", n)
	w.ended(n, "changed")
	pulls := w.pulls()
	if len(pulls) != 1 || len(w.comments(n)) != 1 {
		t.Fatalf("%d pull requests and %d comments, want one of each", len(pulls), len(w.comments(n)))
	}
	w.until("the checks are reported", func() bool { return len(w.checkRuns(pulls[0].GetHead().GetSHA())) >= 2 })
	w.until("the mission waits", func() bool { return strings.Contains(w.bot.text(), `"next":"waiting"`) })
	if got := len(w.checkRuns(pulls[0].GetHead().GetSHA())); got != 2 {
		t.Errorf("%d Check Runs, want 2", got)
	}
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

// TestCase29ThingsThatGoAway has what a mission works on vanish under it. Each ends once, with a class, and not in a loop.
func TestCase29ThingsThatGoAway(t *testing.T) {
	t.Parallel()
	for name, vanish := range map[string]func(w *world, issue int) error{
		"suspended":  func(w *world, _ int) error { return w.double.Suspend(w.install.ID) },
		"archived":   func(w *world, _ int) error { return w.double.ArchiveRepo("acme/calc", true) },
		"deleted":    func(w *world, _ int) error { return w.double.DeleteRepo("acme/calc") },
		"unselected": func(w *world, _ int) error { return w.double.Uninstall(w.install.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc("while [ ! -e go ]; do sleep 0.1; done\n"+fixes))
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			agentLog := filepath.Join(w.dir, "state/runs/*/exec/agent/log")
			w.until("the agent works", func() bool { return len(must1(filepath.Glob(agentLog))(t)) == 1 })
			w.double.AddHookFault(github.HookFault{Kind: github.Lose, Times: -1}) // the webhook is not to be relied on
			must(t, vanish(w, n))
			run := must1(filepath.Glob(filepath.Join(w.dir, "state/runs/r-*-1")))(t)[0]
			must(t, os.WriteFile(filepath.Join(run, filepath.Base(run), "go"), nil, 0o644))
			w.until("the mission ends", func() bool { return strings.Contains(w.bot.text(), `"next":"ended"`) })
			if strings.Count(w.bot.text(), `"msg":"step ended the work"`) != 1 {
				t.Error("the work did not end exactly once")
			}
			w.nothingLeft()
		})
	}
}

// TestRenamedRepository goes on under the new name, since the id is the key.
func TestRenamedRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("while [ ! -e go ]; do sleep 0.1; done\n"+fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	agentLog := filepath.Join(w.dir, "state/runs/*/exec/agent/log")
	w.until("the agent works", func() bool { return len(must1(filepath.Glob(agentLog))(t)) == 1 })
	must(t, w.double.RenameRepo("acme/calc", "calculator"))
	run := must1(filepath.Glob(filepath.Join(w.dir, "state/runs/r-*-1")))(t)[0]
	must(t, os.WriteFile(filepath.Join(run, filepath.Base(run), "go"), nil, 0o644))
	w.ended(n, "changed")
	must(t, w.double.RenameRepo("acme/calculator", "calc"))
	if len(w.pulls()) != 1 {
		t.Errorf("%d pull requests, want 1", len(w.pulls()))
	}
}
