package tree

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"
)

// repository makes a bare one, and runs git in it.
func repository(t *testing.T) (dir string, in func(stdin string, args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	in = func(stdin string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"--git-dir=" + dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	in("", "init", "-q", "--bare", dir)
	return dir, in
}

// TestPackedMeanwhile: all objects move from file to file while a tree is read, as by maintenance.
func TestPackedMeanwhile(t *testing.T) {
	t.Parallel()
	dir, in := repository(t)
	blob := in("x", "hash-object", "-w", "--stdin")
	inner := in("100644 blob "+blob+"\tfile\n", "mktree")
	commit := in("", "commit-tree", "-m", "one", in("040000 tree "+inner+"\tdir\n", "mktree"))
	in("", "update-ref", "refs/heads/main", commit)
	packs := 0
	repack := func() { // each pack has another name
		packs++
		more := in(fmt.Sprint(packs), "hash-object", "-w", "--stdin")
		in("", "update-ref", fmt.Sprintf("refs/more/%d", packs), more)
		in("", "repack", "-q", "-a", "-d")
		in("", "prune-packed", "-q")
	}
	open := func() *Tree {
		repack()
		tree, err := Open(dir, commit)
		if err != nil {
			t.Fatal(err)
		}
		repack()
		return tree
	}
	if !open().Exists("dir/file") {
		t.Error("a file does not exist")
	}
	if text, err := open().Read("dir/file"); string(text) != "x" || err != nil {
		t.Errorf("file: %q, %v", text, err)
	}
	if paths, _, err := open().Paths(); err != nil || len(paths) != 1 {
		t.Errorf("paths: %q, %v", paths, err)
	}
	if _, err := Open(dir, strings.Repeat("1", 40)); !errors.Is(err, plumbing.ErrObjectNotFound) {
		t.Errorf("a commit that is not there: %v", err)
	}
}

// TestPathsOfOddNames: names that git checks out and other programs would not take do not keep a repository from being worked on.
func TestPathsOfOddNames(t *testing.T) {
	t.Parallel()
	dir, in := repository(t)
	blob := in("x", "hash-object", "-w", "--stdin")
	want := []string{"-rf", "a\\b", "esc\x1b", "line\nbreak", "\xff"}
	var entries strings.Builder
	for _, name := range want {
		fmt.Fprintf(&entries, "100644 blob %s\t%s\x00", blob, name)
	}
	commit := in("", "commit-tree", "-m", "odd names", in(entries.String(), "mktree", "-z"))
	tree, err := Open(dir, commit)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := tree.Paths()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
