package bases_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/bases"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// repository is a plain repository as the one store, which counts the checkouts of whole commits.
type repository struct {
	t         *testing.T
	dir       string
	g         *git.Git
	checkouts atomic.Int32
	before    func(ctx context.Context, verb string) error
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{t: t, dir: t.TempDir(), g: g}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repository) Dir(string) string { return filepath.Join(r.dir, ".git") }

func (r *repository) Run(ctx context.Context, _ string, c git.Call) ([]byte, error) {
	if c.Args[0] == "read-tree" {
		r.checkouts.Add(1)
	}
	if r.before != nil {
		if err := r.before(ctx, c.Args[0]); err != nil {
			return nil, err
		}
	}
	c.GitDir = r.Dir("")
	return r.g.Run(ctx, c)
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files and commits them.
func (r *repository) commit(files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-qm", "x")
	return r.git("rev-parse", "HEAD")
}

func (r *repository) open(dir string, change func(*bases.Options)) *bases.Bases {
	o := bases.Options{Dir: dir, Store: r, GitFile: "gitdir: /git\n",
		GitDir: func(dir, _, commit string) error {
			return os.WriteFile(filepath.Join(dir, "HEAD"), []byte(commit), 0o644)
		}}
	if change != nil {
		change(&o)
	}
	return bases.Open(o)
}

func take(t *testing.T, b *bases.Bases, commit, lease string) bases.Base {
	t.Helper()
	base, _, err := b.Take(t.Context(), "k", commit, lease)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// TestTakeAtOnce: many who ask at the same time, through different handles as different processes have them, get one checkout.
func TestTakeAtOnce(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.commit(map[string]string{"a": "1\n", "d/b": "2\n"})
	dir := t.TempDir()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			base, _, err := r.open(dir, nil).Take(t.Context(), "k", commit, fmt.Sprint("r-", i))
			if err == nil {
				_, err = os.Stat(filepath.Join(base.Trees()[0], "d/b"))
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := r.checkouts.Load(); n != 1 {
		t.Errorf("%d checkouts, want 1", n)
	}
}

// TestKilledInTheMiddle: what a build has left that did not come to its end is not taken for a base, and goes.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.commit(map[string]string{"a": "1\n"})
	dir := t.TempDir()
	b := r.open(dir, nil)
	for _, half := range []string{commit + ".new/tree/a", commit + "/tree/a"} { // before the rename; without its record
		file := filepath.Join(dir, "k", half)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	other := strings.Repeat("a", 40)
	if err := os.MkdirAll(filepath.Join(dir, "k", other+".new", "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	base := take(t, b, commit, "r-1")
	if got, err := os.ReadFile(filepath.Join(base.Trees()[0], "a")); err != nil || string(got) != "1\n" {
		t.Errorf("a is %q (%v)", got, err)
	}
	removed, err := b.Trim(func(string) bool { return true })
	if err != nil || len(removed) != 1 {
		t.Errorf("Trim removed %q (%v)", removed, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "k", other+".new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half of a base is left: %v", err)
	}
}

// TestBuildFails: an error, or the end of the context, leaves nothing that the next call would take for a base.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.commit(map[string]string{"a": "1\n"})
	b := r.open(t.TempDir(), nil)
	failed := errors.New("no space")
	r.before = func(context.Context, string) error { return failed }
	if _, _, err := b.Take(t.Context(), "k", commit, "r-1"); !errors.Is(err, failed) {
		t.Errorf("Take: %v, want the error of git", err)
	}
	r.before = nil
	take(t, b, commit, "r-1")
	for _, name := range []string{"../x", "", ".x"} {
		if _, _, err := b.Take(t.Context(), "k", commit, name); err == nil {
			t.Errorf("lease %q: no error", name)
		}
		if _, _, err := b.Take(t.Context(), name, commit, "r-1"); err == nil {
			t.Errorf("key %q: no error", name)
		}
	}
}

// TestStoreWithoutTheNearest: a base that the store does not know any more keeps no other from being made.
func TestStoreWithoutTheNearest(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	b := r.open(t.TempDir(), nil)
	first := take(t, b, r.commit(map[string]string{"a": "1\n"}), "r-1")
	if err := os.RemoveAll(r.Dir("")); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	second := r.commit(map[string]string{"a": "2\n"})
	if base := take(t, b, second, "r-2"); second == first.Commit || len(base.Layers) != 1 {
		t.Errorf("the second base has the layers %q, want itself alone", base.Layers)
	}
}

// TestBudget: those that nobody needs go, the least recently used first; never one that is in use, nor what lies below one.
func TestBudget(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprint("f", i)] = "content\n"
	}
	first := r.commit(files)
	second := r.commit(map[string]string{"f1": "changed\n"})
	r.git("rm", "-rq", ".")
	third := r.commit(map[string]string{"other": "1\n"})
	later := time.Now().Add(time.Hour)
	b := r.open(t.TempDir(), func(o *bases.Options) { o.Budget, o.Now = 1, func() time.Time { return later } })
	take(t, b, first, "r-1")
	derived := take(t, b, second, "r-2")
	if len(derived.Layers) != 2 {
		t.Fatalf("the second base has %d layers, want 2", len(derived.Layers))
	}
	take(t, b, third, "r-3")
	check := func(step string, alive []string, want ...string) {
		t.Helper()
		if _, err := b.Trim(func(lease string) bool { return strings.Contains(strings.Join(alive, " "), lease) }); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, commit := range []string{first, second, third} {
			if _, err := b.Get("k", commit); err == nil {
				got = append(got, commit)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: left are %q, want %q", step, got, want)
		}
	}
	check("all in use", []string{"r-1", "r-2", "r-3"}, first, second, third)
	if err := b.Give("k", third, "r-3"); err != nil {
		t.Fatal(err)
	}
	check("one given back", []string{"r-1", "r-2"}, first, second)
	check("the upper one in use", []string{"r-2"}, first, second)
	check("none in use", nil)
	check("still none", nil)
}

// TestRulesOfDerived: a base that was made of another knows the same files with rules as one that was made whole.
func TestRulesOfDerived(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	files := map[string]string{".gitattributes": "*.x text\n", ".gitignore": "a\n", "d/.gitignore": "b\n", "e/.gitignore": "c\n"}
	for i := range 80 {
		files[fmt.Sprint("f", i)] = "content\n"
	}
	b, whole := r.open(t.TempDir(), nil), r.open(t.TempDir(), func(o *bases.Options) { o.Layers = 1 })
	take(t, b, r.commit(files), "r-1")
	r.git("rm", "-q", "d/.gitignore")
	second := r.commit(map[string]string{"e/.gitignore": "changed\n", "z/.gitignore": "new\n", "b/x": "1\n"})
	got, want := take(t, b, second, "r-2"), take(t, whole, second, "r-2")
	if len(got.Layers) != 2 || len(want.Layers) != 1 {
		t.Fatalf("%d and %d layers, want 2 and 1", len(got.Layers), len(want.Layers))
	}
	if !slices.Equal(got.Rules, want.Rules) || len(want.Rules) != 4 || got.Files != want.Files {
		t.Errorf("rules %q in %d files, want %q in %d", got.Rules, got.Files, want.Rules, want.Files)
	}
}

// TestAfterPowerCut: a base of an earlier start of the machine counts only if the disk was known to have it.
func TestAfterPowerCut(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.commit(map[string]string{"a": "1\n"})
	dir := t.TempDir()
	b := r.open(dir, nil)
	take(t, b, commit, "r-1")
	record := filepath.Join(dir, "k", commit, "base.json")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	other := strings.Replace(string(text), strings.TrimSpace(string(boot)), "another-boot", 1)
	if err := os.WriteFile(record, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get("k", commit); err == nil {
		t.Error("a base that may be damaged was given")
	}
	if err := os.WriteFile(record, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get("k", commit); err != nil {
		t.Errorf("after Sync: %v", err)
	}
}
