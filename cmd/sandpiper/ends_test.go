package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

func TestCase23KilledDuringTheAgentsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("echo working\nwhile [ ! -e /sandpiper/go ]; do sleep 0.1; done\n"+fixes))
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
	must(t, os.WriteFile(filepath.Join(run, "task", "go"), nil, 0o644)) // seen inside as /sandpiper/go
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
		"named agent":          {calc("", ".github/sandpiper.yml", "agent: claude\n"), nil, "blocked by policy", "SANDPIPER"},
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
	w := newWorld(t, calc("echo 2 >sum.txt\n", "sum.txt", "1\n")) // on the base the check passes
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
	// An admin whose membership is private is let in all the same: the permission decides, not the association. What toby
	// wrote is part of the text, and needs a container.
	w.say("olga", n, "/sandpiper run please")
	outcome := "changed"
	if !containers() {
		outcome = "blocked by policy"
	}
	w.ended(n, outcome)
}

// TestKilledAtEveryStep has one mission survive kill -9 at each border between two steps, and once in the middle of each.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	past := ""
	for _, next := range []string{"create", "execute", "inspect", "verify", "promote", "report", "archive"} {
		w.until("the next step is "+next, func() bool {
			// The bot may have been quicker than we are, also in the life before this one.
			all := past + w.bot.text()
			return strings.Contains(all, `"next":"`+next+`"`) || strings.Contains(all, `"next":"waiting"`)
		})
		past += w.bot.text()
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
