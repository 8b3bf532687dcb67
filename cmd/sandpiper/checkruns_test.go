package main

import (
	"slices"
	"strings"
	"testing"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// runNamed is the newest Check Run of a name on a commit; nil where there is none.
func (w *world) runNamed(sha, name string) *gh.CheckRun {
	w.t.Helper()
	var newest *gh.CheckRun
	for _, r := range w.allRuns(sha) {
		if r.GetName() == "sandpiper / "+name && r.GetID() > newest.GetID() {
			newest = r
		}
	}
	return newest
}

// TestButtonsOfAFailedCheck ask for the check again, or for a round; who presses one is looked up.
func TestButtonsOfAFailedCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, mendsSum), "sum.txt", "1\n")) // on the base the check passes: the failure is the change's
	w.start()
	_, pr := w.opened()
	n, head := pr.GetNumber(), pr.GetHead().GetSHA()
	failed := w.runNamed(head, "sum")
	must(t, w.double.RequestAction("acme/calc", failed.GetID(), "fix", "toby"))
	must(t, w.double.RequestAction("acme/calc", failed.GetID(), "retry", "rita"))
	w.until("the check has run again", func() bool {
		r := w.runNamed(head, "sum")
		return r.GetID() != failed.GetID() && r.GetConclusion() == "failure"
	})
	if !strings.Contains(w.bot.text(), "toby may not write here") || w.head(n) != head {
		t.Error("toby's button was not refused")
	}
	must(t, w.double.RequestAction("acme/calc", failed.GetID(), "keep", "toby"))
	must(t, w.double.RequestAction("acme/calc", failed.GetID(), "keep", "rita"))
	w.until("it is said how to get at the files", func() bool { return w.said(n, "as rita asked. Where the bot runs: `sandpiper sandbox recover r-") })
	listed, status := w.program("sandbox", "list", "--all", "--json")
	if status != 0 || strings.Count(listed, "button of the check sum, pressed by rita") != 1 || strings.Contains(listed, "pressed by toby") {
		t.Errorf("list ended with %d:\n%s", status, listed)
	}
	must(t, w.double.RequestAction("acme/calc", failed.GetID(), "fix", "rita"))
	w.round(n, 2, "changed")
	if seen := w.fileAt(w.head(n), "seen.md"); !strings.Contains(seen, "Mend the check sum.") || !strings.Contains(seen, "Check sum did not pass") {
		t.Errorf("the agent was given:\n%s", seen)
	}
}

// TestBaselineIsNotHeldAgainstTheChange: what fails on main in the same way makes no draft, and something else does.
func TestBaselineIsNotHeldAgainstTheChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent, title string
		draft        bool
	}{
		"fails_on_main": {"echo 1 >other.txt\n", "fails on main too, since ", false},
		"other_finding": {"echo 'said.txt:1: error: another one' >said.txt\n", "fails on main too, new here: 1 of 1 findings", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(c.agent, "said.txt", "sum.txt:1: error: it is not 1\n", ".github/sandpiper.yml",
				"agent: sh agent.sh\nchecks:\n  - {name: sum, run: 'cat said.txt; exit 1', required: true}\n"))
			w.start()
			_, pr := w.opened()
			run := w.runNamed(pr.GetHead().GetSHA(), "sum")
			if !strings.Contains(run.GetOutput().GetTitle(), c.title) || pr.GetDraft() != c.draft || run.GetConclusion() != "failure" {
				t.Errorf("draft %v, %s: %s", pr.GetDraft(), run.GetConclusion(), run.GetOutput().GetTitle())
			}
			if near := strings.Contains(run.GetOutput().GetSummary(), "1 of them on lines of this change"); near != c.draft {
				t.Errorf("the summary:\n%s", run.GetOutput().GetSummary())
			}
			w.nothingLeft()
		})
	}
}

// TestBaselineIsRunOnce for missions on one base, also of checks that are not required; what older bases did says since when.
func TestBaselineIsRunOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("date +%N >other.txt\n", ".github/sandpiper.yml",
		"agent: sh agent.sh\nchecks:\n  - {name: sum, run: 'echo error; exit 1'}\n  - {name: new, run: test ! -e other.txt, required: true}\n"))
	first := must1(w.double.BranchHead("acme/calc", "main"))(t)
	w.start()
	titles := func(mission int) (sum, other string) {
		issue := w.openIssue("Sum returns 0", "")
		w.label("octavia", issue)
		w.ended(issue, "changed")
		w.waits(mission)
		sha := w.pulls()[0].GetHead().GetSHA()
		return w.runNamed(sha, "sum").GetOutput().GetTitle(), w.runNamed(sha, "new").GetOutput().GetTitle()
	}
	onBase := func() int {
		listed, _ := w.program("sandbox", "list", "--all")
		return strings.Count(listed, "-checks-base ")
	}
	for mission := 1; mission <= 2; mission++ {
		sum, other := titles(mission)
		if !strings.HasPrefix(sum, "fails on main too, since "+first[:7]+" of ") || !strings.HasPrefix(other, "fails here and passes on main ("+first[:7]+")") || onBase() != 1 {
			t.Errorf("mission %d: %q, %q, %d sandboxes on the base", mission, sum, other, onBase())
		}
	}
	w.pushes("octavia", "main", "README.md", "later\n")
	if sum, _ := titles(3); !strings.HasPrefix(sum, "fails on main too, since "+first[:7]+" of ") || onBase() != 2 {
		t.Errorf("on a new base: %q, %d sandboxes on bases", sum, onBase())
	}
}

// TestBaselineWhoseSetupFails: a pull request that mends the setup is checked all the same, and nothing is said of that base, whatever is
// known of older ones.
func TestBaselineWhoseSetupFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes, "works", "1\n", ".github/sandpiper.yml",
		"agent: sh agent.sh\nsetup:\n  - run: test -e works\nchecks:\n  - {name: sum, run: 'false', required: true}\n"))
	w.start()
	title := func(branch, file string) string {
		head := w.pushes("octavia", branch, file, "2\n")
		pr, _, err := w.as("octavia").PullRequests.Create(t.Context(), "acme", "calc", &gh.NewPullRequest{Title: gh.String("Fix"), Head: &branch, Base: gh.String("main")})
		must(t, err)
		w.label("octavia", pr.GetNumber())
		w.until("the check has ended", func() bool { return w.runNamed(head, "sum").GetStatus() == "completed" })
		return w.runNamed(head, "sum").GetOutput().GetTitle()
	}
	if got := title("other", "other.txt"); !strings.HasPrefix(got, "fails on main too, since ") {
		t.Errorf("where the setup works: %q", got)
	}
	must1(w.double.Push("acme/calc", github.CommitOptions{Branch: "main", Login: "octavia", Message: "break", Delete: []string{"works"}}))(t)
	if got := title("fix", "works"); got != "exit status 1" {
		t.Errorf("where it does not: %q", got)
	}
}

// TestMergeGroupIsAnswered on its own commit, with the checks and with the review gate.
func TestMergeGroupIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	_, pr := w.opened()
	w.review("rita", pr.GetNumber(), "APPROVE")
	w.gateIs(pr.GetHead().GetSHA(), "success")
	head := must1(w.double.StartMergeGroup("acme/calc", pr.GetNumber()))(t)
	w.until("all is reported on the group", func() bool {
		runs := w.allRuns(head)
		return len(runs) == 3 && !slices.ContainsFunc(runs, func(r *gh.CheckRun) bool { return r.GetConclusion() != "success" })
	})
	w.until("its mission is over", func() bool { return strings.Contains(w.bot.text(), `"next":"ended"`) })
	must(t, w.double.EndMergeGroup("acme/calc", pr.GetNumber(), "merged"))
	w.nothingLeft()
}

// TestOpenCheckRunsOfEndedMissionsAreConcluded after a crash that left one.
func TestOpenCheckRunsOfEndedMissionsAreConcluded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	_, pr := w.opened()
	head := pr.GetHead().GetSHA()
	id := w.runNamed(head, "sum").GetExternalID()
	app := must1(w.double.AsApp(w.app.Slug))(t)
	token, _, err := app.Apps.CreateInstallationToken(t.Context(), w.install.ID, nil)
	must(t, err)
	_, _, err = w.double.Client(token.GetToken()).Checks.CreateCheckRun(t.Context(), "acme", "calc", gh.CreateCheckRunOptions{
		Name: "sandpiper / left", HeadSHA: head, Status: gh.String("in_progress"), ExternalID: gh.String(strings.Replace(id, ":sum:", ":left:", 1)),
	})
	must(t, err)
	w.say("rita", pr.GetNumber(), "/sandpiper discard")
	w.until("it is concluded", func() bool { return w.runNamed(head, "left").GetConclusion() == "cancelled" })
}
