package probe_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

func needsJail(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap (bwrap) is not installed: nothing can be run in a sandbox")
	}
}

// on opens a manager with the worktree backend on a directory of the test.
func on(t *testing.T, o worktree.Options) probe.Options {
	t.Helper()
	state := t.TempDir()
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Stores, err = gitstore.Open(filepath.Join(state, "stores"), g); err != nil {
		t.Fatal(err)
	}
	m, err := sandbox.Open(sandbox.Config{StateDir: state, Stores: o.Stores, Backends: []sandbox.Backend{worktree.New(o)}})
	if err != nil {
		t.Fatal(err)
	}
	return probe.Options{Sandboxes: m, Stores: o.Stores, Backend: "worktree", StateDir: state}
}

func show(t *testing.T, r probe.Result) {
	t.Helper()
	for _, p := range r.Probes {
		t.Logf("%s %s %q", p.Name, p.Verdict, p.Why)
	}
	t.Logf("tier %q, lowered %q", r.Tier, r.Lowered)
	for _, o := range r.Observed {
		t.Logf("%s: %s: %s", o.Observer, o.What, o.Saw)
	}
}

func TestWorktreePasses(t *testing.T) {
	needsJail(t)
	if raceDetector && os.Geteuid() != 0 {
		// ThreadSanitizer needs more address space than an ordinary user's jail gives it, and ends with 66 before main.
		t.Skip("the race detector does not start in the jail of an ordinary user; run this without -race")
	}
	o := on(t, worktree.Options{})
	r := probe.Run(t.Context(), o)
	if !r.OK() || r.Tier != probe.Colleague {
		show(t, r)
		t.Fatalf("verdict %s, tier %q", r.Verdict, r.Tier)
	}
	recs, err := o.Sandboxes.(*sandbox.Manager).Discarded()
	if err != nil || len(recs) > 0 {
		t.Errorf("left behind: %v, %v", recs, err)
	}
	if found, _ := filepath.Glob(filepath.Join(os.TempDir(), "sandpiper-probe-*")); len(found) > 0 {
		t.Logf("in the temporary directory (of this or another test): %q", found)
	}
}

// TestWhatAKilledRoundLeftIsRemoved by a later one, and not what another round may be using.
func TestWhatAKilledRoundLeftIsRemoved(t *testing.T) {
	o := on(t, worktree.Options{})
	t.Setenv("TMPDIR", t.TempDir())
	stale, fresh := filepath.Join(os.TempDir(), "sandpiper-probe-1"), filepath.Join(os.TempDir(), "sandpiper-probe-2")
	for _, dir := range []string{stale, fresh} {
		if err := os.MkdirAll(filepath.Join(dir, "outside"), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(stale, then, then); err != nil {
		t.Fatal(err)
	}
	probe.Run(t.Context(), o)
	if found, err := filepath.Glob(filepath.Join(os.TempDir(), "sandpiper-probe-*")); err != nil || !slices.Equal(found, []string{fresh}) {
		t.Errorf("there is %q, %v; want %q", found, err, fresh)
	}
}
