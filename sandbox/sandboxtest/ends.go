package sandboxtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

func commitSpec() sandbox.CommitSpec {
	who := sandbox.Signature{Name: "sandpiper[bot]", Email: "bot@example.com", When: time.Unix(1700000000, 0).UTC()}
	return sandbox.CommitSpec{Author: who, Committer: who, Message: "Fix it\n\nMission: m-1\n"}
}

func paths(changes []sandbox.Change) []string {
	out := []string{}
	for _, c := range changes {
		out = append(out, string(c.Kind)+" "+c.Path)
	}
	return out
}

func testPromote(t *testing.T, f Fixture) {
	r := small(t)
	id := f.Create(t, r)
	if _, err := f.Manager.Promote(t.Context(), id, sandbox.Selection{}, commitSpec(), nil); !errors.Is(err, sandbox.ErrNothing) {
		t.Errorf("Promote of nothing: %v, want ErrNothing", err)
	}
	f.Sh(t, id, "echo more >>a.txt; mkdir -p docs/x; echo d >docs/x/d.md; echo s >secret.key; git mv dir/b.txt dir/c.txt")
	failed := errors.New("not published")
	sel := sandbox.Selection{Only: []string{"*.txt", "docs/**", "dir"}, Drop: []string{"**/*.key"}}
	_, err := f.Manager.Promote(t.Context(), id, sel, commitSpec(), func(context.Context, sandbox.Promotion) error { return failed })
	if !errors.Is(err, failed) {
		t.Fatalf("Promote: %v, want the error of publish", err)
	}
	wantState(t, f, id, sandbox.Dirty)
	p, err := f.Manager.Promote(t.Context(), id, sel, commitSpec(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, f, id, sandbox.Promoted)
	if diff := cmp.Diff([]string{"modified a.txt", "renamed dir/c.txt", "added docs/x/d.md"}, paths(p.Changes)); diff != "" {
		t.Errorf("promoted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"added secret.key"}, paths(p.LeftOut)); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if got := f.Store(t, "rev-parse", sandbox.Ref(id, "promoted")); got != p.Commit {
		t.Errorf("ref is at %s, want %s", got, p.Commit)
	}
	want := "tree " + p.Tree + "\nparent " + r.Git("rev-parse", "HEAD") + "\nauthor sandpiper[bot] <bot@example.com> 1700000000 +0000\n" +
		"committer sandpiper[bot] <bot@example.com> 1700000000 +0000\n\nFix it\n\nMission: m-1"
	if diff := cmp.Diff(want, f.Store(t, "cat-file", "commit", p.Commit)); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	f.Store(t, "fsck", "--strict")
}

func testPromoteTwice(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, "echo more >>a.txt")
	calls := 0
	publish := func(context.Context, sandbox.Promotion) error { calls++; return nil }
	first, err := f.Manager.Promote(t.Context(), id, sandbox.Selection{}, commitSpec(), publish)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Manager.Promote(t.Context(), id, sandbox.Selection{}, commitSpec(), publish)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" || calls != 2 {
		t.Errorf("published %d times; the second promotion differs:\n%s", calls, diff)
	}
	f.Sh(t, id, "true") // the next round of work
	wantState(t, f, id, sandbox.Dirty)
}

func testDiscardRecords(t *testing.T, f Fixture) {
	r := small(t)
	r.Write(".gitignore", "*.log\ncache/\n")
	r.Commit()
	id := f.Create(t, r)
	f.Sh(t, id, `
		echo committed >c; git add c; git commit -qm 'work in a commit'; git rm -q c; git commit -qm 'and out again'
		echo stashed >>a.txt; git stash -q
		git init -q cache; git -C cache config x.y z; git init -q nested; echo n >nested/n; echo '*.o' >nested/.gitignore
		head -c 150000000 /dev/zero >large; echo untracked >u; echo ignored >i.log; mkdir -p cache; echo cached >cache/c; chmod 600 i.log; rm dir/b.txt`)
	d, err := f.Manager.Discard(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	ref := sandbox.Ref(id, "discarded")
	if diff := cmp.Diff([]string{ref, filepath.Join(f.StateDir, "archive", string(id))}, d.Kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"u": "untracked", "i.log": "ignored", "cache/c": "cached",
		"cache/%.git/HEAD": "ref: refs/heads/master", "nested/%.git/HEAD": "ref: refs/heads/master", "nested/n": "n"} {
		if got := f.Store(t, "show", ref+":"+name); got != want {
			t.Errorf("%s in what was recorded is %q, want %q", name, got, want)
		}
	}
	if got := f.Store(t, "cat-file", "-s", ref+":large"); got != "150000000" {
		t.Errorf("the large file has %s bytes in what was recorded", got)
	}
	names := f.Store(t, "ls-tree", "-r", "--name-only", ref)
	if strings.Contains(names, "dir/b.txt") || !strings.Contains(names, "%.git/refs/stash") || !strings.Contains(names, "%.git/logs/HEAD") {
		t.Errorf("what was recorded:\n%s", names)
	}
	// The commits of the agent can be had again from the recorded git directory.
	again := &Repo{t: t, Dir: t.TempDir()}
	again.Git("init", "-q", ".")
	if out := restore(t, f, ref, again.Dir); out != nil {
		t.Fatal(out)
	}
	if got := again.Git("log", "--format=%s", "-2"); got != "and out again\nwork in a commit" {
		t.Errorf("commits of the agent: %q", got)
	}
	if got := again.Git("stash", "list"); !strings.Contains(got, "WIP") {
		t.Errorf("stashes of the agent: %q", got)
	}
	nothingLeft(t, f)
}

// restore puts the recorded git directory into a repository, beside the objects of the store.
func restore(t *testing.T, f Fixture, ref, dir string) error {
	t.Helper()
	for line := range strings.Lines(f.Store(t, "ls-tree", "-r", "--format=%(objectname) %(path)", ref+":%.git") + "\n") {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		path := filepath.Join(dir, ".git", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		var content strings.Builder
		if err := storeBlob(t, f, id, &content); err != nil {
			return err
		}
		os.Remove(path)
		if err := os.WriteFile(path, []byte(content.String()), 0o644); err != nil {
			return err
		}
	}
	alternates := filepath.Join(f.Stores.Dir("local-test"), "objects") + "\n"
	return os.WriteFile(filepath.Join(dir, ".git/objects/info/alternates"), []byte(alternates), 0o644)
}

func testDiscardTwice(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, "echo more >>a.txt")
	first, err := f.Manager.Discard(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Manager.Discard(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
	unchanged := f.Create(t, small(t))
	d, err := f.Manager.Discard(t.Context(), unchanged)
	if err != nil || len(d.Kept) != 1 {
		t.Errorf("Discard of what did not change kept %q (%v)", d.Kept, err)
	}
	if refs := f.Store(t, "for-each-ref", sandbox.Ref(unchanged, "")); refs != "" {
		t.Errorf("refs left: %s", refs)
	}
}

// nothingLeft checks that no sandbox, registration or lock file is there.
func nothingLeft(t *testing.T, f Fixture) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(f.StateDir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("directory of run %s is left", e.Name())
	}
	if left, err := os.ReadDir(filepath.Join(f.Stores.Dir("local-test"), "worktrees")); err == nil && len(left) > 0 {
		t.Errorf("%d registrations of worktrees are left", len(left))
	}
	err = filepath.WalkDir(f.Stores.Dir("local-test"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".lock") || strings.Contains(path, "tmp_") || strings.Contains(path, "crash") {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
