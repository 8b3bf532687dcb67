package overlay_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/overlay"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

func open(state string, supervisor []string) (sandboxtest.Fixture, error) {
	f := sandboxtest.Fixture{StateDir: state}
	g, err := git.New(git.Options{})
	if err != nil {
		return f, err
	}
	if f.Stores, err = gitstore.Open(filepath.Join(state, "stores"), g); err != nil {
		return f, err
	}
	f.Manager, err = sandbox.Open(sandbox.Config{StateDir: state, Stores: f.Stores, Supervisor: supervisor,
		Backends: []sandbox.Backend{overlay.New(overlay.Options{StateDir: state, Stores: f.Stores})}})
	return f, err
}

func TestMain(m *testing.M) { sandboxtest.Main(m, open) }

// needsOverlay skips where overlays or jails do not work, with the reason.
func needsOverlay(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	var not *sandbox.ErrUnavailable
	err := overlay.New(overlay.Options{StateDir: dir}).Available(t.Context())
	if errors.As(err, &not) {
		t.Skip(not)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	needsOverlay(t)
	sandboxtest.Run(t, open)
}

// TestMaterialise: a person finds the files as they are, also while a command runs.
func TestMaterialise(t *testing.T) {
	needsOverlay(t)
	f := sandboxtest.New(t, open)
	r := sandboxtest.NewRepo(t)
	r.Write("a", "1\n")
	r.Write("gone", "x\n")
	r.Write("dir/b", "2\n")
	r.Commit()
	id := f.Create(t, r)
	f.Sh(t, id, "echo more >>a; rm gone; echo new >dir/new; mkdir shut; chmod 0 shut")
	for range 2 {
		path, err := f.Manager.Materialise(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, name := range []string{"a", "gone", "dir/b", "dir/new"} {
			text, _ := os.ReadFile(filepath.Join(path, name))
			got[name] = string(text)
		}
		if diff := cmp.Diff(map[string]string{"a": "1\nmore\n", "gone": "", "dir/b": "2\n", "dir/new": "new\n"}, got); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		// An ordinary user's copy may hold it: in a namespace of their own nothing is shut to them.
		_, missing := os.Lstat(filepath.Join(path, "shut"))
		if text, _ := os.ReadFile(filepath.Join(path, ".sandpiper-not-copied")); missing != nil && !strings.Contains(string(text), "shut") {
			t.Errorf("what could not be copied: %q", text)
		}
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// TestAuto: where overlays do not work the next backend is taken, and the record says why.
func TestAuto(t *testing.T) {
	t.Parallel()
	state := t.TempDir() + "/with,a comma" // which cuts the options of a mount in pieces
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stores, err := gitstore.Open(filepath.Join(state, "stores"), g)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sandbox.Open(sandbox.Config{StateDir: state, Stores: stores, Default: sandbox.Auto, Backends: []sandbox.Backend{
		overlay.New(overlay.Options{StateDir: state, Stores: stores}), worktree.New(worktree.Options{Stores: stores})}})
	if err != nil {
		t.Fatal(err)
	}
	r := sandboxtest.NewRepo(t)
	r.Write("a", "1\n")
	src := sandboxtest.Fixture{Manager: m, Stores: stores, StateDir: state}.Source(t, commit(r))
	id, err := m.Create(t.Context(), "m-1", src, sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := m.Record(id)
	if err != nil || rec.Backend != "worktree" || !strings.Contains(rec.Why, "comma") {
		t.Errorf("record: backend %q, why %q (%v)", rec.Backend, rec.Why, err)
	}
	var not *sandbox.ErrUnavailable
	if _, err := m.Create(t.Context(), "m-1", src, sandbox.Options{Backend: "overlay"}); !errors.As(err, &not) {
		t.Errorf("overlay where it does not work: %v, want ErrUnavailable", err)
	}
	if _, err := m.Discard(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func commit(r *sandboxtest.Repo) *sandboxtest.Repo {
	r.Commit()
	return r
}

// TestCheck: the doctor says in which way overlays work here, or why not, and leaves nothing behind.
func TestCheck(t *testing.T) {
	needsOverlay(t)
	dir := t.TempDir()
	way, err := overlay.Check(t.Context(), dir)
	if want := map[bool]string{true: overlay.ByRoot, false: overlay.ByUser}[os.Geteuid() == 0]; err != nil || way != want {
		t.Errorf("check: %q, %v; want %q", way, err, want)
	}
	cut := filepath.Join(dir, "with,a comma")
	if err := os.Mkdir(cut, 0o700); err != nil {
		t.Fatal(err)
	}
	var not *sandbox.ErrUnavailable
	if _, err := overlay.Check(t.Context(), cut); !errors.As(err, &not) || !strings.Contains(not.Reason, "comma") {
		t.Errorf("check where it cannot be: %v", err)
	}
	for _, d := range []string{dir, cut} {
		if left, err := filepath.Glob(d + "/try-*"); err != nil || len(left) > 0 {
			t.Errorf("left: %v (%v)", left, err)
		}
	}
}
