package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// held is an agent that waits for letGo, so that GitHub can have a bad day in the meantime.
const held = "while [ ! -e /sandpiper/go ]; do sleep 0.1; done\n" + fixes

// atWork labels a new issue and waits until its agent, which is held, works.
func (w *world) atWork() (issue int) {
	w.t.Helper()
	issue = w.openIssue("Sum returns 0", "")
	w.label("rita", issue)
	w.until("the agent works", func() bool {
		return len(must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*/exec/agent/log")))(w.t)) == 1
	})
	return issue
}

// only is the one mission, as an operator sees it.
func (w *world) only() missionLine {
	w.t.Helper()
	var list []missionLine
	out, _ := w.program("missions", "list", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		w.t.Fatalf("missions: %v, want one: %s", err, out)
	}
	return list[0]
}

// closed waits until the one mission is over.
func (w *world) closed() missionLine {
	w.t.Helper()
	w.until("the mission is over", func() bool { return strings.Contains(w.bot.text(), `"next":"ended"`) })
	return w.only()
}

// TestCase29ThingsThatGoAway has what a mission works on vanish under it, with the deliveries that tell of it lost. Each ends
// once, with a class and a sentence, and not in a loop. The work takes so long that the issue is read again.
func TestCase29ThingsThatGoAway(t *testing.T) {
	t.Parallel()
	moved := map[string]string{"Location": "/repos/acme/elsewhere/issues/1"}
	for name, c := range map[string]struct {
		vanish        func(w *world, issue int) error
		outcome, says string
	}{
		"suspended":     {func(w *world, _ int) error { return w.double.Suspend(w.install.ID) }, "blocked by host", "an owner can lift that"},
		"uninstalled":   {func(w *world, _ int) error { return w.double.Uninstall(w.install.ID) }, "blocked by host", "no longer among those"},
		"unselected":    {func(w *world, _ int) error { return w.double.SelectRepos(w.install.ID, nil, []string{"acme/calc"}) }, "blocked by host", "no longer among those"},
		"archived":      {func(w *world, _ int) error { return w.double.ArchiveRepo("acme/calc", true) }, "blocked by rule", "archived"},
		"deleted":       {func(w *world, _ int) error { return w.double.DeleteRepo("acme/calc") }, "blocked by host", "no longer among those"},
		"transferred":   {func(w *world, _ int) error { return w.double.TransferRepo("acme/calc", "olga") }, "blocked by host", "no longer among those"},
		"issue deleted": {func(w *world, n int) error { return w.double.DeleteIssue("acme/calc", n, "olga") }, "blocked by host", "the issue has been deleted"},
		"issue transferred": {func(w *world, n int) error {
			return w.double.AddFault(github.Fault{Method: "GET", Path: fmt.Sprintf("^/repos/acme/calc/issues/%d$", n), Status: http.StatusMovedPermanently, Header: moved, Times: -1})
		}, "blocked by host", "transferred"},
		"issue closed": {func(w *world, n int) error {
			_, _, err := w.as("octavia").Issues.Edit(w.t.Context(), "acme", "calc", n, &gh.IssueRequest{State: gh.String("closed")})
			return err
		}, "cancelled", "the issue has been closed"},
		"permission withdrawn": {func(w *world, _ int) error {
			return w.double.AcceptPermissions(w.install.ID, map[string]string{"contents": "read", "issues": "write", "pull_requests": "write", "checks": "write"}, nil)
		}, "blocked by host", "contents: write"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(held))
			w.start()
			n, began := w.atWork(), time.Now()
			w.double.AddHookFault(github.HookFault{Kind: github.Lose, Times: -1}) // the webhook is not to be relied on
			must(t, c.vanish(w, n))
			w.double.ExpireTokens() // as an hour's work would
			w.until("what was read at the start is old", func() bool { return time.Since(began) > 11*time.Second })
			w.letGo()
			if m := w.closed(); m.Outcome != c.outcome || !strings.Contains(m.Message, c.says) {
				t.Errorf("it ended as %s: %s; want %s: …%s…", m.Outcome, m.Message, c.outcome, c.says)
			}
			if got := strings.Count(w.bot.text(), `"msg":"step ended the work"`); got != 1 {
				t.Errorf("the work ended %d times, want once", got)
			}
			w.nothingLeft()
		})
	}
}

// TestCase29HeardOf is the same where the deliveries that tell of it arrive: the work stops at once.
func TestCase29HeardOf(t *testing.T) {
	t.Parallel()
	for name, vanish := range map[string]func(w *world, issue int) error{
		"suspended":     func(w *world, _ int) error { return w.double.Suspend(w.install.ID) },
		"uninstalled":   func(w *world, _ int) error { return w.double.Uninstall(w.install.ID) },
		"unselected":    func(w *world, _ int) error { return w.double.SelectRepos(w.install.ID, nil, []string{"acme/calc"}) },
		"issue deleted": func(w *world, n int) error { return w.double.DeleteIssue("acme/calc", n, "olga") },
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(held))
			w.start()
			must(t, vanish(w, w.atWork()))
			if m := w.closed(); m.Outcome != "cancelled" || !strings.Contains(m.Message, "what it worked on is gone") {
				t.Errorf("it ended as %s: %s", m.Outcome, m.Message)
			}
			w.nothingLeft()
		})
	}
}

// TestAccessComesBack: what could not be said on the issue while the App was kept out is said then.
func TestAccessComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ away, back func(*world) error }{
		"unsuspended": {
			func(w *world) error { return w.double.Suspend(w.install.ID) },
			func(w *world) error { return w.double.Unsuspend(w.install.ID) },
		},
		"installed again": {
			func(w *world) error { return w.double.Uninstall(w.install.ID) },
			func(w *world) error { _, err := w.double.Install(w.app.Slug, "acme"); return err },
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(held))
			w.start()
			n := w.atWork()
			must(t, c.away(w))
			w.closed()
			if w.said(n, "**cancelled**") {
				t.Fatal("the end was told without access")
			}
			must(t, c.back(w))
			w.ended(n, "cancelled")
			if got := len(w.comments(n)); got != 1 {
				t.Errorf("%d comments, want one that was edited", got)
			}
		})
	}
}

// TestBadDaysThatPass are those after which the mission goes on to its one pull request.
func TestBadDaysThatPass(t *testing.T) {
	t.Parallel()
	for name, day := range map[string]func(w *world, issue int){
		"renamed": func(w *world, _ int) { // the id is the key
			must(w.t, w.double.RenameRepo("acme/calc", "calculator"))
		},
		"the account of the requester is deleted": func(w *world, _ int) { must(w.t, w.double.DeleteUser("rita")) },
		"locked": func(w *world, _ int) {
			must(w.t, w.double.AddFault(github.Fault{Path: "/issues/comments/", Status: http.StatusForbidden, Times: -1,
				Message: "Unable to create comment because issue is locked."}))
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(held))
			w.start()
			day(w, w.atWork())
			w.letGo()
			w.until("the mission waits", func() bool { return strings.Contains(w.bot.text(), `"next":"waiting"`) })
			if m := w.only(); m.Outcome != "changed" || m.Pull == 0 {
				t.Errorf("it stands as %s: %s", m.Outcome, m.Message)
			}
		})
	}
}

// TestLockedFromTheStart: what cannot be said there is no reason not to work.
func TestLockedFromTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	must(t, w.double.AddFault(github.Fault{Method: "POST", Path: "/issues/1/comments$", Status: http.StatusForbidden, Times: -1,
		Message: "Unable to create comment because issue is locked."}))
	w.start()
	w.label("octavia", w.openIssue("Sum returns 0", ""))
	w.until("there is a pull request", func() bool { return len(w.pulls()) == 1 })
}

// TestAccountsThatAreGone: GitHub shows what a deleted account wrote as by ghost, or by nobody at all, in deliveries and answers.
func TestAccountsThatAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.env = []string{"SANDPIPER_WEBHOOK_SECRETS=" + secret}
	w.start()
	issue, _, err := w.as("rita").Issues.Create(t.Context(), "acme", "calc", &gh.IssueRequest{Title: gh.String("Sum returns 0")})
	must(t, err)
	must(t, w.double.DeleteUser("rita"))
	n := issue.GetNumber()
	w.label("octavia", n)
	w.until("the mission has an outcome", func() bool { return slices.ContainsFunc(w.comments(n), ended) })
	outsiders := func(n int) bool { return w.said(n, "outsider") || w.said(n, "is not strong enough here") } // where no container can be run
	if !outsiders(n) {
		t.Errorf("text by a ghost is trusted: %q", w.comments(n))
	}

	second := w.openIssue("Sum returns 1", "")
	must(t, w.double.AddFault(github.Fault{Method: "GET", Path: fmt.Sprintf("/issues/%d/comments$", second), Status: http.StatusOK, Times: -1,
		Body: `[{"id":1,"user":null,"body":"me too","created_at":"2020-01-01T00:00:00Z","updated_at":"2020-01-01T00:00:00Z"}]`}))
	w.double.AddHookFault(github.HookFault{Kind: github.Lose, Event: "issues", Action: "labeled"})
	w.label("octavia", second)
	octavia, _, err := w.as("octavia").Users.Get(t.Context(), "")
	must(t, err)
	repo, _, err := w.as("octavia").Repositories.Get(t.Context(), "acme", "calc")
	must(t, err)
	payload := filepath.Join(w.dir, "labeled.json")
	must(t, os.WriteFile(payload, fmt.Appendf(nil, `{"action":"labeled","label":{"name":"sandpiper"},"issue":{"number":%d,"title":"Sum returns 1","state":"open","user":null},
		"repository":{"id":%d,"name":"calc","full_name":"acme/calc","owner":{"login":"acme"},"default_branch":"main"},
		"sender":{"login":"octavia","id":%d,"type":"User"},"installation":{"id":%d}}`, second, repo.GetID(), octavia.GetID(), w.install.ID), 0o600))
	if out, code := w.program("replay", "--event", "issues", "--send", "--url", w.bot.url+"/webhook", payload); code != 0 {
		t.Fatalf("replay: %d, %s", code, out)
	}
	w.until("the second mission stands still", func() bool {
		return strings.Count(w.bot.text(), `"next":"waiting"`)+strings.Count(w.bot.text(), `"next":"ended"`) >= 2
	})
	w.double.ClearFaults()
	if !outsiders(second) {
		t.Errorf("text by nobody is trusted: %q", w.comments(second))
	}
}

// TestKeyIsRotated takes the key away under a running bot. It waits, says who is to do what, and goes on with the new one.
func TestKeyIsRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(held))
	w.start()
	n := w.atWork()
	must(t, w.double.RotateKey(w.app.Slug))
	w.double.ExpireTokens()
	w.letGo()
	w.until("the bot meets its old key", func() bool { return strings.Contains(w.bot.text(), "step failed, will be tried again") })
	w.say("octavia", n, "/sandpiper status") // is not lost either
	if code := w.bot.stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	w.start() // with the key that the App has now
	w.ended(n, "changed")
	w.until("the command is answered", func() bool { return len(w.comments(n)) == 2 })
	if got := len(w.pulls()); got != 1 {
		t.Errorf("%d pull requests, want 1", got)
	}
}

// TestClockGoesWrong has this machine's clock go wrong for a while.
func TestClockGoesWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(held))
	w.start()
	n := w.atWork()
	w.double.SetClockSkew(2 * time.Hour) // tokens expire by it as well
	w.letGo()
	w.until("the bot says what is wrong", func() bool {
		return strings.Contains(w.bot.text(), "the clock of this machine is 2h0m0s behind GitHub's")
	})
	w.double.SetClockSkew(0)
	w.ended(n, "changed")
}

// TestWebhookSecretIsRotated changes it at GitHub first, which is the wrong order: what was refused meanwhile is found again.
func TestWebhookSecretIsRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.env = []string{"SANDPIPER_SWEEP_EVERY=1s"}
	w.start()
	const newer = "another secret for webhooks"
	must(t, w.double.SetHook(w.app.Slug, w.bot.url+"/webhook", newer))
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	must(t, w.double.Flush(t.Context()))
	w.bot.stop()
	w.env = append(w.env, "SANDPIPER_WEBHOOK_SECRETS="+newer+","+secret)
	w.start() // which points the hook at it with the old secret: both are good now
	w.ended(n, "changed")
	must(t, w.double.SetHook(w.app.Slug, w.bot.url+"/webhook", newer))
	again := w.openIssue("Sum returns 1", "")
	w.label("octavia", again)
	w.ended(again, "changed")
}

// TestPermissionThatWasNeverAccepted is said on the issue, with its name.
func TestPermissionThatWasNeverAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	must(t, w.double.AcceptPermissions(w.install.ID, map[string]string{"contents": "read", "issues": "write", "pull_requests": "write", "checks": "read"}, nil))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "blocked by host")
	if !w.said(n, "the App lacks the permission contents: write here; an owner has to accept it") {
		t.Errorf("the issue does not say which: %q", w.comments(n))
	}
}

// TestEnterpriseServer has GitHub's API below /api/v3 and /api, as GitHub Enterprise Server has it, and asks for a signed
// commit, which is made by GraphQL.
func TestEnterpriseServer(t *testing.T) {
	t.Parallel()
	files := calc(fixes)
	files[".github/sandpiper.yml"] += "promote: {transport: api}\n"
	w := newWorld(t, files)
	w.env = []string{"SANDPIPER_GITHUB_API_URL="} // it follows from that of the site
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	if got := w.filesOf(w.pulls()[0].GetNumber()); len(got) != 1 || got[0] != "sum.txt" {
		t.Errorf("files of the pull request: %s", got)
	}
	if !strings.Contains(w.bot.text(), `"api":"`+w.double.URL()+`/api/v3"`) {
		t.Error("the API was not asked below /api/v3")
	}
}

// TestArchivedWhileChecksRun: the run is over in the bot's own books, and it says that its Check Runs stay open.
func TestArchivedWhileChecksRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes, ".github/sandpiper.yml", "agent: sh agent.sh\nchecks:\n  - {name: long, run: 'sleep 5'}\n"))
	w.start()
	head := w.pushes("octavia", "fix", "sum.txt", "1\n")
	pr, _, err := w.as("octavia").PullRequests.Create(t.Context(), "acme", "calc", &gh.NewPullRequest{Title: gh.String("Fix"), Head: gh.String("fix"), Base: gh.String("main")})
	must(t, err)
	w.label("octavia", pr.GetNumber())
	w.until("the check is at work", func() bool {
		runs := w.checkRuns(head)
		return len(runs) == 1 && runs[0].GetStatus() == "in_progress"
	})
	must(t, w.double.ArchiveRepo("acme/calc", true))
	w.until("it has ended and says so", func() bool { return strings.Contains(w.bot.text(), "stay open, since nothing could be written there") })
}

// TestPageInsteadOfRefs has a proxy answer git with a page, once. For git that is a repository without a commit, which would be the end.
func TestPageInsteadOfRefs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	must(t, w.double.AddFault(github.Fault{Path: "info/refs$", Status: http.StatusOK, Body: "<html>Sign in to the network</html>"}))
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
}
