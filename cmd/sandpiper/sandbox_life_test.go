package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// The way that the help text shows to a newcomer.
func TestSandboxCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create("--base", "main", "--limit", "procs=200", "--mission", "m-test")
	if got := b.want(0, "sandbox", "status", id); got != "created" {
		t.Errorf("status is %s", got)
	}
	b.want(0, "sandbox", "exec", id, "--", "sh", "-c", `echo more >>README.md; git mv src/a.txt src/c.txt; rm src/b.txt; printf 'x\n' >'new
file'; git -c user.name=agent -c user.email=a@invalid commit -qam own`)
	if got := b.want(0, "sandbox", "status", id); got != "dirty" {
		t.Errorf("status is %s", got)
	}
	changes := b.want(0, "sandbox", "changes", id)
	want := "modified  +1 -0  README.md\nadded     +1 -0  new\\nfile\ndeleted   +0 -1  src/b.txt\nrenamed   +0 -0  src/a.txt -> src/c.txt"
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("changes: (-want +got)\n%s", diff)
	}
	var list []sandbox.Record
	if err := json.Unmarshal([]byte(b.want(0, "sandbox", "list", "--json")), &list); err != nil || len(list) != 1 || list[0].Limits.Procs != 200 ||
		list[0].Mission != "m-test" {
		t.Errorf("list: %v, %v", list, err)
	}
	if diff := b.want(0, "sandbox", "diff", id); !strings.Contains(diff, "+more") {
		t.Errorf("diff: %s", diff)
	}
	commit := b.want(0, "sandbox", "promote", id, "--only", "src/**", "--branch", "fix/it", "--message", "Mend it")
	if got := b.git("rev-parse", "fix/it"); got != commit {
		t.Errorf("the branch is at %s, not %s", got, commit)
	}
	if got := b.git("status", "--porcelain") + b.git("rev-parse", "--abbrev-ref", "HEAD"); got != "main" {
		t.Errorf("the checkout was touched: %s", got)
	}
	if got := b.git("diff", "--name-status", "main", "fix/it"); got != "D\tsrc/b.txt\nR100\tsrc/a.txt\tsrc/c.txt" && got != "R100\tsrc/a.txt\tsrc/c.txt\nD\tsrc/b.txt" {
		t.Errorf("promoted: %s", got)
	}
	if again := b.want(0, "sandbox", "promote", id, "--only", "src/**", "--branch", "fix/it", "--message", "Mend it"); again != commit {
		t.Errorf("promoted again as %s", again)
	}
	b.want(4, "sandbox", "promote", id, "--branch", "fix/it")
	b.want(4, "sandbox", "promote", id, "--only", "nothing/**", "--branch", "other")
	b.want(2, "sandbox", "promote", id, "--branch", "no..name")

	b.want(0, "sandbox", "keep", id, "--reason", "because")
	if got := b.want(0, "reap", "--dry-run", "--older-than", "1ns"); !strings.Contains(got, "stays "+id) {
		t.Errorf("reap: %s", got)
	}
	if got := b.want(0, "reap", "--dry-run", "--json"); strings.Contains(got, "null") { // a program goes over lists
		t.Errorf("reap as JSON: %s", got)
	}
	if got := b.want(0, "audit", "verify", "--json"); strings.Contains(got, "null") {
		t.Errorf("the audit as JSON: %s", got)
	}
	b.want(0, "sandbox", "keep", id, "--end")
	if got := b.want(0, "reap", "--dry-run", "--older-than", "1ns"); got != "would be discarded "+id {
		t.Errorf("reap: %s", got)
	}
	path := b.want(0, "sandbox", "path", id)
	if got := b.want(0, "sandbox", "discard", id); !strings.Contains(got, sandbox.Ref(sandbox.ID(id), "discarded")) {
		t.Errorf("discard: %s", got)
	}
	b.want(0, "sandbox", "discard", id)
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is still there", path)
	}
	if got := b.want(0, "sandbox", "status", id); got != "discarded" {
		t.Errorf("status is %s", got)
	}
	b.want(4, "sandbox", "path", id)
}

// TestKeepOfADiscardedSandboxSaysSo: what is recorded of it is kept as asked, but who wanted the files has to know that they are gone.
func TestKeepOfADiscardedSandboxSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.want(0, "sandbox", "discard", id)
	code, out, said := b.run("", "sandbox", "keep", id)
	if code != 4 || out != "" || !strings.Contains(said, "is discarded, so its files are gone") || !strings.Contains(said, "sandbox recover "+id) {
		t.Errorf("exit status %d, %q, %q", code, out, said)
	}
	var kept struct{ Until time.Time }
	if code, out, _ := b.run("", "sandbox", "keep", id, "--for", "2400h", "--json"); json.Unmarshal([]byte(out), &kept) != nil || code != 4 {
		t.Fatalf("exit status %d, %q", code, out)
	}
	if got := b.want(0, "sandbox", "list", "--all"); !strings.Contains(got, "until "+kept.Until.Local().Format(time.DateOnly)) {
		t.Errorf("it is not kept until %s:\n%s", kept.Until, got)
	}
	b.want(0, "sandbox", "keep", id, "--end")
}

func TestSandboxExitStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create("--limit", "output=1M")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{0, "", []string{"exec", id, "--", "true"}},
		{7, "", []string{"exec", id, "--", "sh", "-c", "exit 7"}},
		{137, "", []string{"exec", id, "--", "sh", "-c", "kill -9 $$"}},
		{127, "No such file", []string{"exec", id, "--", "nosuch"}},
		{126, "Permission denied", []string{"exec", id, "--", "/etc"}},
		{124, "timed out", []string{"exec", id, "--timeout", "200ms", "--", "sleep", "20"}},
		{137, "too much output", []string{"exec", id, "--", "yes"}},
		{125, "no such group", []string{"exec", id, "--net", "golang", "--", "true"}},
		{0, "", []string{"exec", id, "--net", "go", "--net", "example.com:8443", "--", "sh", "-c", "test $https_proxy = http://127.0.0.1:3128"}},
		{125, "no such sandbox", []string{"exec", "r-nosuch-1", "--", "true"}},
		{2, "then --", []string{"exec", id, "true"}},
		{2, "then --", []string{"exec", id, "--"}},
		{2, "unknown flag", []string{"exec", "--bad", id, "--", "true"}},
		{3, "no such sandbox", []string{"status", "r-nosuch-1"}},
		{3, "no such sandbox", []string{"changes", "../../etc"}},
		{2, "takes the id", []string{"status"}},
		{2, "not a size", []string{"create", "--repo", ".", "--limit", "memory=x"}},
		{2, "--repo is missing", []string{"create"}},
		{1, "nosuch", []string{"create", "--repo", ".", "--base", "nosuch"}},
		{3, "", []string{"check", id, "--name", "c", "--", "sh", "-c", "echo said; exit 3"}},
		{3, "", []string{"check", id, "--name", "c", "--", "sh", "-c", "echo said; exit 3"}},
		{0, "", []string{"log", id, "c"}},
		{3, "no such sandbox or command", []string{"log", id, "nosuch"}},
	} {
		if got := b.want(c.code, append([]string{"sandbox"}, c.args...)...); !strings.Contains(got, c.says) {
			t.Errorf("%v does not say %q: %s", c.args, c.says, got)
		}
	}
	if got := b.want(0, "sandbox", "log", id, "c"); got != "said" {
		t.Errorf("the log is %q", got)
	}
}

// The three standard streams are those of the command, and nothing of ours but them goes in.
func TestSandboxExecStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	code, stdout, stderr := b.run("from outside\n", "sandbox", "exec", id, "--env", "GIVEN=yes", "--dir", "src", "--", "sh", "-c", "cat; pwd; env >&2; exit 5")
	if code != 5 || stdout != "from outside\n/workspace/src\n" || !strings.Contains(stderr, "GIVEN=yes") || strings.Contains(stderr, "canary-4711") {
		t.Errorf("ended with %d: %q, %q", code, stdout, stderr)
	}
}

// Names and text that were made inside act on nothing that they are printed to.
func TestSandboxPrintsHarmlessly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.want(0, "sandbox", "exec", id, "--", "sh", "-c", `for n in "$(printf '\033]0;t')" "$(printf 'a\n::error::b')" "$(printf 'r\rb')" "$(printf 'bidi\342\200\256')" "$(printf 'bad\377')"; do
printf 'text \033[31m\342\200\256\r\n' >"$n"; done`)
	for _, args := range [][]string{{"changes", id}, {"changes", "--json", id}, {"diff", id}, {"status", "--json", id}} {
		got := b.want(0, append([]string{"sandbox"}, args...)...)
		if got != escape(got, "\n\t") || strings.Contains(got, "\n::error::") {
			t.Errorf("%v printed %q", args, got)
		}
	}
	if got := b.want(0, "sandbox", "diff", "--raw", id); !strings.Contains(got, "+text \x1b[31m") {
		t.Errorf("the exact diff is %q", got)
	}
	var changes []sandbox.Change
	if err := json.Unmarshal([]byte(b.want(0, "sandbox", "changes", "--json", id)), &changes); err != nil || len(changes) != 5 {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
}

// A branch that somebody has made is never moved; a name that cannot be one is refused; a linked worktree is a repository too.
func TestLandIn(t *testing.T) {
	t.Parallel()
	b, store := newBench(t), newBench(t)
	store.git("fetch", "-q", b.repo, "main:refs/heads/other")
	store.git("commit", "-q", "--allow-empty", "-m", "made inside")
	commit := store.git("rev-parse", "HEAD")
	b.git("worktree", "add", "-q", "../linked")
	b.git("branch", "taken")
	marker := filepath.Join(b.state, "ran")
	for _, hook := range []string{"pre-receive", "update", "reference-transaction", "post-update"} {
		if err := os.WriteFile(filepath.Join(b.repo, ".git/hooks", hook), []byte("#!/bin/sh\nmkdir -p "+marker+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	land := func(dir, branch string) error {
		return landIn(t.Context(), g, dir, filepath.Join(store.repo, ".git"), "refs/heads/main", commit, branch)
	}
	for _, c := range []struct{ dir, branch, at string }{{b.repo, "new", "new"}, {b.repo, "new", "new"}, {filepath.Join(b.repo, "../linked"), "deep/new", "deep/new"}} {
		if err := land(c.dir, c.branch); err != nil || b.git("rev-parse", c.at) != commit {
			t.Errorf("%v: %v", c, err)
		}
	}
	var exit exitError
	if err := land(b.repo, "taken"); !errors.As(err, &exit) || exit.code != 4 || b.git("rev-parse", "taken") != b.git("rev-parse", "main") {
		t.Errorf("a branch that exists: %v", err)
	}
	for _, bad := range []string{"", "a..b", "-x", "a b", "new/below", "x.lock", "HEAD", "@"} {
		if err := land(b.repo, bad); err == nil {
			t.Errorf("branch %q was made", bad)
		}
	}
	if err := land(filepath.Join(b.repo, "moved"), "new"); err == nil || !strings.Contains(err.Error(), "moved: no such file") {
		t.Errorf("a repository that is not there: %v", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a hook of the repository ran")
	}
	if got := b.git("status", "--porcelain"); got != "" {
		t.Errorf("the checkout was touched: %s", got)
	}
}

// kill -9 of the process ends the command, and the sandbox can be used again.
func TestSandboxExecKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	word := fmt.Sprintf("killed-%d", time.Now().UnixNano())
	cmd := exec.Command(program, "sandbox", "exec", id, "--", "sh", "-c", "echo up; sleep 60; :", word)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SANDPIPER_STATE_DIR=" + b.state}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	deadline := time.After(20 * time.Second)
	for running(t, word) {
		select {
		case <-deadline:
			t.Fatal("the command lives on")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if got := b.want(0, "sandbox", "status", id); got == "running" {
		t.Errorf("status is %s", got)
	}
	b.want(0, "sandbox", "exec", id, "--", "true")
	b.want(0, "sandbox", "discard", id)
}

func running(t *testing.T, word string) bool {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, _ := os.ReadFile(name); bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}
