package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installs is a repository that needs its dependencies, which are ignored files and a cache in the home, for its agent and its check.
func installs(setup string) map[string]string {
	files := calc("grep -qx 'lib 1' deps/lib && grep -qx warm $HOME/.cache/tool || { echo nothing is installed; exit 1; }\necho 1 >sum.txt\n")
	files["deps.lock"], files[".gitignore"] = "lib 1\n", "deps/\n"
	files[".github/sandpiper.yml"] = strings.Join([]string{
		"agent: sh agent.sh",
		"setup:",
		"  - {run: '" + setup + "', needs: [deps.lock]}",
		"checks:",
		"  - {name: sum, run: grep -qx 1 sum.txt && test -x deps/bin && grep -q lib deps/link, required: true}",
	}, "\n") + "\n"
	return files
}

const install = "mkdir -p deps $HOME/.cache; cp deps.lock deps/lib; echo run >deps/bin; chmod 755 deps/bin; ln -s lib deps/link; echo warm >$HOME/.cache/tool; echo stray >stray.txt; echo x >>README.md"

func (w *world) layers() (names []string) {
	entries, err := os.ReadDir(filepath.Join(w.dir, "state", "layers"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (w *world) logged(text string) int {
	w.bot.mu.Lock()
	defer w.bot.mu.Unlock()
	return strings.Count(w.bot.log.String(), text)
}

// Setup runs once for two missions, and for their checks; what it made is neither in a pull request nor left behind.
func TestSetupRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, installs(install))
	w.start()
	for i := range 2 {
		n := w.openIssue("Sum", "")
		w.label("octavia", n)
		w.ended(n, "changed")
		if pulls := w.pulls(); len(pulls) != i+1 {
			t.Fatalf("%d pull requests, want %d", len(pulls), i+1)
		}
	}
	for _, pr := range w.pulls() {
		if got := strings.Join(w.filesOf(pr.GetNumber()), " "); got != "sum.txt" {
			t.Errorf("files of the pull request: %s", got)
		}
	}
	if got := w.layers(); len(got) != 1 {
		t.Errorf("layers: %q, want one", got)
	}
	if got := w.logged(`"setup done"`); got != 1 {
		t.Errorf("setup was run %d times, want once", got)
	}
	w.nothingLeft()
}

// A setup that fails is the policy's to mend: the issue says how it ended, no agent is started, and nothing of it is kept.
func TestSetupFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, installs("mkdir deps; echo half >deps/lib; echo the registry says no >&2; exit 7"))
	w.start()
	n := w.openIssue("Sum", "")
	w.label("octavia", n)
	w.ended(n, "blocked by policy")
	for _, part := range []string{"ended with 7", "the registry says no"} {
		if !w.said(n, part) {
			t.Errorf("the issue does not say %q:\n%s", part, strings.Join(w.comments(n), "\n"))
		}
	}
	if got := w.layers(); len(got) != 0 {
		t.Errorf("layers of a setup that failed: %q", got)
	}
	if len(w.pulls()) != 0 {
		t.Error("there is a pull request")
	}
	w.nothingLeft()
}

// An agent that changes what the setup needs has it installed anew for the checks, and under a name that no later run goes by: its
// scripts could have put anything there.
func TestSetupOfAChangeIsItsOwn(t *testing.T) {
	t.Parallel()
	files := installs("mkdir -p deps; cp deps.lock deps/lib")
	files["agent.sh"] = "grep -qx \"lib 1\" deps/lib || exit 1\necho lib 2 >deps.lock\n"
	files[".github/sandpiper.yml"] = strings.Replace(files[".github/sandpiper.yml"],
		"run: grep -qx 1 sum.txt && test -x deps/bin && grep -q lib deps/link", `run: grep -qx "lib 2" deps/lib`, 1)
	w := newWorld(t, files)
	w.start()
	for i := range 2 {
		n := w.openIssue("Newer", "")
		w.label("octavia", n)
		w.ended(n, "changed")
		for _, pr := range w.pulls() {
			for _, run := range w.checkRuns(pr.GetHead().GetSHA()) {
				if run.GetConclusion() == "failure" {
					t.Errorf("mission %d: %s failed: %s", i, run.GetName(), run.GetOutput().GetSummary())
				}
			}
		}
	}
	shared := 0
	for _, name := range w.layers() {
		if strings.Count(name, "-") == 2 { // gh-<id>-<digest>, and for one commit alone -<commit>
			shared++
		}
	}
	if shared != 1 || len(w.layers()) < 2 {
		t.Errorf("layers: %q, want one that is shared and those of the changes", w.layers())
	}
	w.nothingLeft()
}
