package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSandboxRecover(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.want(0, "sandbox", "exec", id, "--", "sh", "-euc", "echo one >one; git add one; git commit -qm 'Add one'; echo two >two; rm src/b.txt")
	if got := b.want(4, "sandbox", "recover", id); !strings.Contains(got, "must be discarded") {
		t.Errorf("recover of a live sandbox says %q", got)
	}
	if got := b.want(0, "sandbox", "commits", id); !strings.Contains(got, "Sandpiper agent <agent@sandpiper.invalid>  Add one") {
		t.Errorf("commits: %q", got)
	}
	b.want(0, "sandbox", "discard", id)
	if got := b.want(125, "sandbox", "exec", id, "--", "true"); !strings.Contains(got, "is discarded; 'sandpiper sandbox recover "+id) {
		t.Errorf("exec in what was discarded says %q", got)
	}
	if got := b.want(0, "sandbox", "list"); got != "" {
		t.Errorf("list: %q", got)
	}
	if got := b.want(0, "sandbox", "list", "--all"); !strings.Contains(got, id) || !strings.Contains(got, "discarded (until 20") {
		t.Errorf("list --all: %q", got)
	}
	dir := filepath.Join(t.TempDir(), "there")
	if got := b.want(0, "sandbox", "recover", id, "--to", dir); got != dir {
		t.Errorf("recover says %q", got)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "two")); err != nil || string(data) != "two\n" {
		t.Errorf("two: %q %v", data, err)
	}
	if got := b.want(1, "sandbox", "recover", id, "--to", dir); !strings.Contains(got, "not empty") {
		t.Errorf("recover a second time says %q", got)
	}
	commit := b.want(0, "sandbox", "recover", id, "--branch", "rescue")
	if got := b.git("rev-parse", "rescue"); got != commit {
		t.Errorf("the branch is at %s, want %s", got, commit)
	}
	if got := b.git("diff", "--name-status", "main", "rescue"); got != "A\tone\nD\tsrc/b.txt\nA\ttwo" {
		t.Errorf("the branch differs in %q", got)
	}
	if got := b.want(0, "sandbox", "commits", id, "--json"); !strings.Contains(got, `"message": "Add one"`) {
		t.Errorf("commits of the discarded sandbox: %s", got)
	}
}
