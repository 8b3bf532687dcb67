package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

func TestParseLimits(t *testing.T) {
	t.Parallel()
	got, err := parseLimits([]string{"procs=256", "memory=1024M", "disk=2G", "output=16MiB", "files=10000", "wall=90s"})
	want := sandbox.Limits{Procs: 256, Memory: 1 << 30, Disk: 2 << 30, Output: 16 << 20, Files: 10000, Wall: 90 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for text, want := range map[string]int64{"1": 1, "4096": 4096, "1k": 1024, "3K": 3072, "1KiB": 1024, "2MB": 2 << 20, "1T": 1 << 40} {
		if got, err := size(text); got != want || err != nil {
			t.Errorf("size of %q: got %d, %v", text, got, err)
		}
	}
	for _, bad := range []string{"procs", "procs=", "procs=x", "procs=0", "procs=-1", "memory=1X", "memory=", "memory=M", "memory=-1M", "memory=9999999999G",
		"wall=10", "wall=-1s", "size=1", "=1", "disk=1.5G"} {
		if _, err := parseLimits([]string{bad}); err == nil {
			t.Errorf("limit %q was taken", bad)
		}
	}
}

func TestRemoteOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	direct, err := remoteOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if linked, err := remoteOf(dir + "/link/."); err != nil || linked.URL != direct.URL || linked.Key != direct.Key {
		t.Errorf("one repository has two stores: %v, %v, %v", direct, linked, err)
	}
	if r, err := remoteOf("https://example.com/a/b.git"); err != nil || r.URL != "https://example.com/a/b.git" || r.Key == direct.Key {
		t.Errorf("got %v, %v", r, err)
	}
	for _, bad := range []string{"https://user:secret@example.com/a", "ssh://example.com/a", "file:///a", dir + "/nosuch", "git@example.com:a/b"} {
		if r, err := remoteOf(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, %v", bad, r, err)
		}
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain äöü 日本 👍":                      "plain äöü 日本 👍",
		"\x1b]0;title\x07":                    `\x1b]0;title\x07`,
		"a\n::error::b\r":                     `a\n::error::b\r`,
		"bidi\u202e tags\U000e0041":           `bidi\u202e tags\U000e0041`,
		"bad\xff\xc3":                         `bad\xff\xc3`,
		"zero\u200bwidth\ufeff\ufe0f\u00ad":   `zero\u200bwidth\ufeff\ufe0f\u00ad`,
		"line\u2028sep\u0085":                 `line\u2028sep\u0085`,
		"tab\tdel\x7f":                        `tab\tdel\x7f`,
		"a replacement \ufffd is a character": "a replacement \ufffd is a character",
	} {
		if diff := cmp.Diff(want, escape(in, "")); diff != "" {
			t.Errorf("%q (-want +got)\n%s", in, diff)
		}
	}
	if a, b := name("a\n"), name(`a\n`); a == b {
		t.Errorf("two names are shown as %s", a)
	}
	if got := escape("a\tb\nc\r", "\n\t"); got != "a\tb\nc\\r" {
		t.Errorf("text: %q", got)
	}
}

// Text is escaped the same however it comes in pieces, and a character is not broken by that.
func TestWriteText(t *testing.T) {
	t.Parallel()
	text := "+äöü\n\x1b[31mred\n日本\u202e\nend without newline 👍"
	for n := 1; n < 9; n++ {
		var out bytes.Buffer
		err := writeText(&out, false, func(w io.Writer) error {
			for p := []byte(text); len(p) > 0; p = p[min(n, len(p)):] {
				if _, err := w.Write(p[:min(n, len(p))]); err != nil {
					return err
				}
			}
			return nil
		})
		if diff := cmp.Diff(escape(text, "\n\t"), out.String()); diff != "" || err != nil {
			t.Errorf("in pieces of %d: %v (-want +got)\n%s", n, err, diff)
		}
	}
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	in := map[string]string{"path": "a\x1b\u202e\U000e0041<>&\u2028ä\x7f"}
	var out bytes.Buffer
	if err := writeJSON(&out, in); err != nil {
		t.Fatal(err)
	}
	if out.String() != escape(out.String(), "\n") {
		t.Errorf("something in it acts on a terminal: %q", out.String())
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, back); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestExitOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		exit sandbox.Exit
		want int
	}{
		{sandbox.Exit{Reason: sandbox.Exited}, 0},
		{sandbox.Exit{Reason: sandbox.Exited, Code: 3}, 3},
		{sandbox.Exit{Reason: sandbox.Signaled, Code: 143}, 143},
		{sandbox.Exit{Reason: sandbox.TimedOut, Code: 137}, 124},
		{sandbox.Exit{Reason: sandbox.NotBegun, Code: 127}, 127},
		{sandbox.Exit{Reason: sandbox.NotBegun, Code: 126}, 126},
		{sandbox.Exit{Reason: sandbox.NotBegun}, 125},
		{sandbox.Exit{Reason: sandbox.Lost, Code: -1}, 125},
		{sandbox.Exit{Reason: sandbox.Flooded, Code: 137}, 137},
		{sandbox.Exit{Reason: sandbox.OutOfMem, Code: -1}, 137},
	} {
		var exit exitError
		errors.As(exitOf("cmd", c.exit), &exit)
		if exit.code != c.want {
			t.Errorf("%+v ends with %d, want %d", c.exit, exit.code, c.want)
		}
	}
}

// bench is a repository and a state directory for the command line.
type bench struct {
	t           *testing.T
	repo, state string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, repo: filepath.Join(dir, "repo"), state: filepath.Join(dir, "state")}
	for path, text := range map[string]string{"README.md": "read me\n", "src/a.txt": "a\n", "src/b.txt": "b\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(b.repo, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.repo, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.git("init", "-q", "-b", "main")
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "base")
	return b
}

func (b *bench) git(args ...string) string {
	b.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", b.repo, "-c", "user.name=x", "-c", "user.email=x@invalid"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null/none", "HOME=/dev/null/none"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// run runs the program as a process of its own.
func (b *bench) run(stdin string, args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SANDPIPER_STATE_DIR=" + b.state, "CANARY=canary-4711"}
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.repo, strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// want runs it and looks at how it ends; it returns what was printed.
func (b *bench) want(code int, args ...string) string {
	b.t.Helper()
	got, stdout, stderr := b.run("", args...)
	if got != code {
		b.t.Fatalf("sandpiper %v ended with %d, want %d\n%s%s", args, got, code, stdout, stderr)
	}
	if code == 0 {
		return strings.TrimSpace(stdout)
	}
	return strings.TrimSpace(stderr)
}

func (b *bench) create(args ...string) string {
	b.t.Helper()
	code, stdout, stderr := b.run("", append([]string{"sandbox", "create", "--repo", "."}, args...)...)
	if code != 0 && strings.Contains(stderr, "jail unavailable") {
		b.t.Skip(stderr)
	}
	if code != 0 {
		b.t.Fatalf("create: %s", stderr)
	}
	id := strings.TrimSpace(stdout)
	if got, _, stderr := b.run("", "sandbox", "exec", id, "--", "true"); got == 125 && strings.Contains(stderr, "unavailable") {
		b.t.Skip(stderr)
	}
	return id
}

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
	var changes []jsonChange
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
	for _, bad := range []string{"", "a..b", "-x", "a b", "new/below", "x.lock"} {
		if err := land(b.repo, bad); err == nil && bad != "-x" {
			t.Errorf("branch %q was made", bad)
		}
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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	word := fmt.Sprintf("killed-%d", time.Now().UnixNano())
	cmd := exec.Command(self, "sandbox", "exec", id, "--", "sh", "-c", "echo up; sleep 60; :", word)
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
