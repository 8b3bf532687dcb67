package fastimport_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/fastimport"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// store makes a repository with one commit, and runs git in it.
func store(t *testing.T) (run fastimport.Runner, base, dir string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run = func(ctx context.Context, c git.Call) ([]byte, error) {
		c.GitDir = dir
		return g.Run(ctx, c)
	}
	script := "commit refs/heads/main\ncommitter a <a@example.com> 1 +0000\ndata 1\nx\nM 100644 inline a\ndata 2\na\n\nM 100644 inline d/b\ndata 2\nb\n\n"
	if _, err := run(t.Context(), git.Call{Args: []string{"fast-import", "--quiet"}, Stdin: strings.NewReader(script)}); err != nil {
		t.Fatal(err)
	}
	return run, read(t, run, "rev-parse", "main"), dir
}

func read(t *testing.T, run fastimport.Runner, args ...string) string {
	t.Helper()
	out, err := run(t.Context(), git.Call{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func commit(base string) fastimport.Commit {
	who := fastimport.Ident{Name: "A <b>\n", Email: "a@example.com", When: time.Unix(1700000000, 0).In(time.FixedZone("", 3600))}
	return fastimport.Commit{Parent: base, Author: who, Committer: who, Message: "subject\n\ndone\nM 100644 inline x\n"}
}

func TestRun(t *testing.T) {
	t.Parallel()
	run, base, dir := store(t)
	id := read(t, run, "rev-parse", "main:a")
	name := "odd \"\\\n\t\x01\xff name "
	fill := func(s *fastimport.Stream) error {
		s.Delete("d/b")
		s.Object("d", "100755", id)
		return errors.Join(s.Blob(name, "100644", 5, strings.NewReader("done\n")), s.Blob("empty", "100644", 0, strings.NewReader("")),
			s.Blob("link", "120000", 1, strings.NewReader("a")))
	}
	first, tree, err := fastimport.Build(t.Context(), run, commit(base), fill)
	if err != nil {
		t.Fatal(err)
	}
	if want := read(t, run, "rev-parse", first+"^{tree}"); tree != want {
		t.Errorf("tree %s, want %s", tree, want)
	}
	want := "100644 blob " + id + "\ta\x00100755 blob " + id + "\td\x00100644 blob e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\tempty\x00" +
		"120000 blob 2e65efe2a145dda7ee51d1741299f848e5bf752e\tlink\x00100644 blob 19f86f493ab110b8dc8279a024880e44203968d8\t" + name + "\x00"
	if diff := cmp.Diff(want, read(t, run, "ls-tree", "-r", "-z", first)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	wantHead := "parent " + base + "\nauthor A b <a@example.com> 1700000000 +0100\ncommitter A b <a@example.com> 1700000000 +0100\n\nsubject\n\ndone\nM 100644 inline x"
	_, head, _ := strings.Cut(read(t, run, "cat-file", "commit", first), "\n")
	if diff := cmp.Diff(wantHead, head); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	volatile := commit(base)
	volatile.Volatile = true
	if second, err := fastimport.Run(t.Context(), run, volatile, fill); err != nil || second != first {
		t.Errorf("the same again is %s, %v; want %s", second, err, first)
	}
	clean(t, run, dir)
}

func TestFailure(t *testing.T) {
	t.Parallel()
	run, base, _ := store(t)
	broken := errors.New("cannot be read")
	for name, fill := range map[string]func(*fastimport.Stream) error{
		"error":  func(s *fastimport.Stream) error { s.Delete("a"); return broken },
		"short":  func(s *fastimport.Stream) error { return s.Blob("x", "100644", 10, strings.NewReader("short")) },
		"long":   func(s *fastimport.Stream) error { return s.Blob("x", "100644", 2, strings.NewReader("long")) },
		"unread": func(s *fastimport.Stream) error { s.Blob("x", "100644", 2, strings.NewReader("")); return nil },
	} {
		if id, err := fastimport.Run(t.Context(), run, commit(base), fill); err == nil || name == "error" && !errors.Is(err, broken) {
			t.Errorf("%s: commit %s, %v", name, id, err)
		}
	}
	if _, err := fastimport.Run(t.Context(), run, commit(strings.Repeat("1", 40)), func(*fastimport.Stream) error { return nil }); err == nil {
		t.Error("a parent that is not there: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fastimport.Run(ctx, run, commit(base), func(*fastimport.Stream) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// clean checks that only main is left.
func clean(t *testing.T, run fastimport.Runner, dir string) {
	t.Helper()
	if refs := read(t, run, "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main" {
		t.Errorf("refs: %s", refs)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "fast_import_crash_*")); len(left) > 0 {
		t.Errorf("crash reports: %q", left)
	}
	if out := read(t, run, "fsck", "--strict"); strings.Contains(out, "error") {
		t.Errorf("fsck: %s", out)
	}
}
