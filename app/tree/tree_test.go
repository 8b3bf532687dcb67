package tree

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
