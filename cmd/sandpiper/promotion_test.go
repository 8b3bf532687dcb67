package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"
)

// lands has octavia put one file on main.
func (w *world) lands(path, text string) string {
	w.t.Helper()
	octavia := w.as("octavia")
	opts := &gh.RepositoryContentFileOptions{Message: gh.String("meanwhile"), Content: []byte(text), Branch: gh.String("main")}
	if file, _, _, err := octavia.Repositories.GetContents(w.t.Context(), "acme", "calc", path, nil); err == nil {
		opts.SHA = file.SHA
	}
	made, _, err := octavia.Repositories.CreateFile(w.t.Context(), "acme", "calc", path, opts)
	must(w.t, err)
	return made.GetSHA()
}

func (w *world) filesOf(pull int) []string {
	w.t.Helper()
	files, _, err := w.as("rita").PullRequests.ListFiles(w.t.Context(), "acme", "calc", pull, nil)
	must(w.t, err)
	names := []string{}
	for _, f := range files {
		names = append(names, f.GetFilename())
	}
	slices.Sort(names)
	return names
}

func (w *world) waits(times int) {
	w.t.Helper()
	w.until("the mission waits for people", func() bool { return strings.Count(w.bot.text(), `"next":"waiting"`) >= times })
}

// TestSelection leaves a file out of an open pull request and takes it back. The checks run on exactly what is shown.
func TestSelection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("echo 1 >sum.txt\necho debug >debug.log\n", ".github/sandpiper.yml",
		"agent: sh agent.sh\nchecks:\n  - {name: log, run: 'test ! -e debug.log', required: true}\n"))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	w.waits(1)
	first := w.pulls()[0]
	if diff := cmp.Diff([]string{"debug.log", "sum.txt"}, w.filesOf(first.GetNumber())); diff != "" || !first.GetDraft() {
		t.Errorf("draft %v (-want +got)\n%s", first.GetDraft(), diff)
	}
	w.say("octavia", n, "/sandpiper drop nothing.txt sum.txt debug.log")
	w.until("an empty selection is refused", func() bool { return w.said(n, "Nothing that the run changed would be left") })
	w.say("octavia", n, `/sandpiper drop "debug.log`)
	w.until("a typing mistake is told", func() bool { return w.said(n, "not closed") })

	w.say("rita", n, "/sandpiper drop *.log")
	w.waits(2)
	pulls := w.pulls()
	if len(pulls) != 1 || pulls[0].GetHead().GetSHA() == first.GetHead().GetSHA() {
		t.Fatalf("%d pull requests, head %s", len(pulls), pulls[0].GetHead().GetSHA())
	}
	if diff := cmp.Diff([]string{"sum.txt"}, w.filesOf(first.GetNumber())); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
	for _, want := range []string{"left out of this pull request", "- `debug.log` (added)", "on exactly this tree"} {
		if !strings.Contains(pulls[0].GetBody(), want) {
			t.Errorf("the pull request does not say %q:\n%s", want, pulls[0].GetBody())
		}
	}
	runs := w.checkRuns(pulls[0].GetHead().GetSHA())
	if i := slices.IndexFunc(runs, func(r *gh.CheckRun) bool { return r.GetName() == "sandpiper / log" }); i < 0 || runs[i].GetConclusion() != "success" {
		t.Errorf("checks of the selection: %v", runs)
	}
	w.say("rita", n, "/sandpiper promote all")
	w.waits(3)
	if diff := cmp.Diff([]string{"debug.log", "sum.txt"}, w.filesOf(first.GetNumber())); diff != "" {
		t.Errorf("what was left out is lost (-want +got)\n%s", diff)
	}
	w.nothingLeft()
}

// TestCase11And12BaseMovesDuringTheRun: a change elsewhere is merged, one in the same place makes a draft from the old base.
func TestCase11And12BaseMovesDuringTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		draft bool
		says  string
	}{
		"elsewhere":      {"other.txt", false, "The base branch has moved since"},
		"the same place": {"sum.txt", true, "It does not merge"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc("while [ ! -e go ]; do sleep 0.1; done\nrm go\n"+fixes, ".github/sandpiper.yml",
				"agent: sh agent.sh\nchecks: [{name: both, run: 'grep -qx 1 sum.txt', required: true}]\n"))
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.until("the agent works", func() bool { return w.said(n, "the agent is at work") })
			tip := w.lands(c.path, "7\n")
			w.letGo()
			w.ended(n, "changed")
			pr := w.pulls()[0]
			if pr.GetDraft() != c.draft || !strings.Contains(pr.GetBody(), c.says) {
				t.Errorf("draft %v:\n%s", pr.GetDraft(), pr.GetBody())
			}
			commit, _, err := w.as("rita").Git.GetCommit(t.Context(), "acme", "calc", pr.GetHead().GetSHA())
			must(t, err)
			if onTip := commit.Parents[0].GetSHA() == tip; onTip == c.draft {
				t.Errorf("on the newest commit: %v", onTip)
			}
			if diff := cmp.Diff([]string{"sum.txt"}, w.filesOf(pr.GetNumber())); diff != "" {
				t.Errorf("files (-want +got)\n%s", diff)
			}
		})
	}
}

// letGo lets an agent go on that waits for a file of that name in its workspace.
func (w *world) letGo() {
	w.t.Helper()
	run := must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*")))(w.t)[0]
	must(w.t, os.WriteFile(filepath.Join(run, filepath.Base(run), "go"), nil, 0o644))
}
