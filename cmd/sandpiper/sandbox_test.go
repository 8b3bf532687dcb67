package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
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
	dir := stateParent(t)
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
	var out, errs bytes.Buffer
	cmd := exec.Command(program, args...)
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
