package main

import (
	"strings"
	"testing"
)

// TestSandboxSaysWhatIsNotTaken has a pipe and a repository among the files of a sandbox, which are no changes.
func TestSandboxSaysWhatIsNotTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.want(0, "sandbox", "exec", id, "--", "sh", "-c", "echo 1 >new; mkfifo pipe; mkdir -p sub/.git")
	for _, args := range [][]string{{"changes"}, {"changes", "--json"}, {"diff"}, {"diff", "--json"}, {"promote"}} {
		code, out, said := b.run("", append([]string{"sandbox", args[0], id}, args[1:]...)...)
		if code != 0 || strings.Count(said, "not taken: ") != 1 || !strings.Contains(said, "pipe") || !strings.Contains(said, "sub/.git (git.nested)") {
			t.Errorf("%v: exit status %d, %q", args, code, said)
		}
		if strings.Contains(out, "not taken") {
			t.Errorf("%v: %q among its output", args, out)
		}
	}
}
