package mission

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// TestPathsOfOddNames: names that git checks out and other programs would not take do not keep a repository from being worked on.
func TestPathsOfOddNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(stdin string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"--git-dir=" + dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	in("", "init", "-q", "--bare", dir)
	blob := in("x", "hash-object", "-w", "--stdin")
	want := []string{"-rf", "a\\b", "esc\x1b", "line\nbreak", "\xff"}
	var entries strings.Builder
	for _, name := range want {
		fmt.Fprintf(&entries, "100644 blob %s\t%s\x00", blob, name)
	}
	commit := in("", "commit-tree", "-m", "odd names", in(entries.String(), "mktree", "-z"))
	tree, err := readTree(dir, commit)
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

// TestBaseThatCannotBeCheckedOut is not the machine's fault, and to try again changes nothing.
func TestBaseThatCannotBeCheckedOut(t *testing.T) {
	t.Parallel()
	cause := &git.Error{Kind: git.ErrPath, Args: []string{"read-tree"}, Stderr: "error: invalid path '.git/config'\n", Exit: 128}
	_, final := judge(fmt.Errorf("sandbox r-1: %w", cause), 0)
	if final == nil || final.outcome != BlockedByRule || final.message != "the base cannot be checked out: invalid path '.git/config'" {
		t.Errorf("the work ends with %v", final)
	}
}
