package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// small is a repository with a bit of everything that is common.
func small(t *testing.T) *Repo {
	t.Helper()
	r := NewRepo(t)
	r.Write("a.txt", "one\n")
	r.Write("dir/b.txt", "two\n")
	r.Write("run.sh", "#!/bin/sh\n")
	r.Git("add", "run.sh")
	r.Git("update-index", "--chmod=+x", "run.sh")
	r.Git("commit", "-qm", "first")
	r.Git("checkout", "-q", "-f", "run.sh")
	r.Git("update-index", "--refresh")
	r.Commit()
	return r
}

func wantState(t *testing.T, f Fixture, id sandbox.ID, want sandbox.State) {
	t.Helper()
	got, err := f.Manager.Status(id)
	if err != nil || got != want {
		t.Fatalf("state is %s (%v), want %s", got, err, want)
	}
}

func collect(t *testing.T, f Fixture, id sandbox.ID) string {
	t.Helper()
	commit, err := f.Manager.CollectDiff(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return commit
}

// summary lists the changes as "kind path".
func summary(t *testing.T, f Fixture, id sandbox.ID) []string {
	t.Helper()
	changes, err := f.Manager.ListChanges(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, c := range changes {
		line := string(c.Kind) + " "
		if c.From != "" {
			line += c.From + " "
		}
		out = append(out, line+c.Path)
	}
	return out
}

func testStates(t *testing.T, f Fixture) {
	r := small(t)
	id := f.Create(t, r)
	base := r.Git("rev-parse", "HEAD")
	wantState(t, f, id, sandbox.Created)
	f.Sh(t, id, "cat a.txt")
	wantState(t, f, id, sandbox.Created)
	if got := collect(t, f, id); got != base {
		t.Errorf("result without a change is %s, want the base %s", got, base)
	}
	f.Sh(t, id, "echo three >>a.txt")
	wantState(t, f, id, sandbox.Dirty)
	var state *sandbox.ErrState
	if err := f.Manager.Verified(t.Context(), id); !errors.As(err, &state) {
		t.Errorf("Verified before anything was collected: %v, want ErrState", err)
	}
	commit := collect(t, f, id)
	if parent := f.Store(t, "rev-parse", commit+"^"); parent != base {
		t.Errorf("parent of the result is %s, want the base %s", parent, base)
	}
	if again := collect(t, f, id); again != commit {
		t.Errorf("collected again: %s, want %s", again, commit)
	}
	if err := f.Manager.Verified(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantState(t, f, id, sandbox.Verified)
	collect(t, f, id)
	wantState(t, f, id, sandbox.Verified)
	f.Sh(t, id, "git checkout a.txt")
	collect(t, f, id)
	wantState(t, f, id, sandbox.Created)
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantState(t, f, id, sandbox.Discarded)
	if _, err := f.Manager.Path(id); !errors.As(err, &state) {
		t.Errorf("Path of a discarded sandbox: %v, want ErrState", err)
	}
	if _, err := f.Manager.Run(t.Context(), id, Shell("true"), sandbox.Stdio{}); !errors.As(err, &state) {
		t.Errorf("Run in a discarded sandbox: %v, want ErrState", err)
	}
	if _, err := f.Manager.Status("r-none-1"); !errors.Is(err, sandbox.ErrUnknown) {
		t.Errorf("Status of nothing: %v, want ErrUnknown", err)
	}
}

func testCreateTwice(t *testing.T, f Fixture) {
	r := small(t)
	src := f.Source(t, r)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{ID: "r-twice-1"})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	recs, err := f.Manager.List()
	if err != nil || len(recs) != 1 {
		t.Errorf("%d sandboxes (%v), want 1", len(recs), err)
	}
	r.Write("more", "")
	r.Commit()
	if _, err := f.Manager.Create(t.Context(), "m-1", f.Source(t, r), sandbox.Options{ID: "r-twice-1"}); err == nil {
		t.Error("another base for the same id: no error")
	}
	f.Sh(t, "r-twice-1", "test -f a.txt && ! test -e more")
}

func testCreateFails(t *testing.T, f Fixture) {
	src := f.Source(t, small(t))
	src.Base = strings.Repeat("1", 40)
	_, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{ID: "r-fails-1"})
	if !errors.Is(err, git.ErrNoRef) {
		t.Errorf("a base that is not there: %v, want ErrNoRef", err)
	}
	for _, id := range []sandbox.ID{"../x", "R-1", "-x", "a/b", sandbox.ID(strings.Repeat("x", 64))} {
		if _, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{ID: id}); err == nil {
			t.Errorf("id %q: no error", id)
		}
	}
	if _, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{Backend: "none"}); err == nil {
		t.Error("a backend that is not there: no error")
	}
	nothingLeft(t, f)
}

func testParallel(t *testing.T, f Fixture) {
	r := small(t)
	src := f.Source(t, r)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = oneLife(t.Context(), f, src, i) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, f)
}

// oneLife makes a sandbox, changes a file in it, looks at the result and discards it.
func oneLife(ctx context.Context, f Fixture, src sandbox.Source, i int) error {
	id, err := f.Manager.Create(ctx, "m-1", src, sandbox.Options{ID: sandbox.ID(fmt.Sprintf("r-par-%d", i))})
	if err != nil {
		return err
	}
	exit, err := f.Manager.Run(ctx, id, Shell(fmt.Sprintf("echo %d >mine; git add mine; git commit -qm mine", i)), sandbox.Stdio{})
	if err != nil || !exit.OK() {
		return fmt.Errorf("run %d: %+v, %w", i, exit, err)
	}
	commit, err := f.Manager.CollectDiff(ctx, id)
	if err != nil {
		return err
	}
	out, err := f.Stores.Read(ctx, src.Key, git.Call{Args: []string{"show", commit + ":mine"}})
	if err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(i) {
		return fmt.Errorf("run %d: its file holds %q (%v)", i, out, err)
	}
	_, err = f.Manager.Discard(ctx, id)
	return err
}

func testGitInside(t *testing.T, f Fixture) {
	r := small(t)
	id := f.Create(t, r)
	out := f.Sh(t, id, `
		git status --porcelain
		git log --format=%s -1
		echo x >>a.txt && git add a.txt && git commit -qm inside
		git branch topic && git stash list
		git diff --stat HEAD~1
		git mv dir moved 2>/dev/null || { mv dir moved; git add -A; } # rename(2) of a directory does not work on every overlay
		git status --porcelain
		git blame a.txt >/dev/null
		git fsck --connectivity-only 2>&1 | grep -v dangling || true
		git log --format=%s -1`)
	want := "a commit\n a.txt | 1 +\n 1 file changed, 1 insertion(+)\nR  dir/b.txt -> moved/b.txt\ninside\n"
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("git inside (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"modified a.txt", "renamed dir/b.txt moved/b.txt"}, summary(t, f, id)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func testEnvironment(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	out := f.Sh(t, id, `pwd; echo "$HOME"; touch "$HOME/kept"; env | cut -d= -f1 | sort | tr '\n' ' '`)
	if !strings.HasPrefix(out, "/workspace\n/home/agent\n") {
		t.Errorf("output inside: %q", out)
	}
	f.Sh(t, id, `test -f "$HOME/kept"`)
	exit, err := f.Manager.Run(t.Context(), id, sandbox.Command{Argv: []string{"pwd"}, Dir: "../.."}, sandbox.Stdio{})
	if err == nil {
		t.Errorf("a directory outside the workspace: %+v", exit)
	}
}
