package git_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

func newGit(t *testing.T, o git.Options) *git.Git {
	t.Helper()
	g, err := git.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newRepo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return dir
}

func TestVersion(t *testing.T) {
	t.Parallel()
	fake := func(says string) string {
		path := filepath.Join(t.TempDir(), "git")
		// A process that another test starts meanwhile would hold the file open for writing until it executes: ETXTBSY (golang/go#22315).
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+says+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ says, want string }{
		{"git version 2.34.1", "2.34.1"},
		{"git version 2.50.1.windows.1", "2.50.1.windows.1"},
		{"git version 3.0", "3.0"},
		{"git version 2.33.9", ""},
		{"git version 1.99", ""},
		{"hello", ""},
	} {
		got, err := newGit(t, git.Options{Path: fake(c.says)}).Version()
		if (err == nil) != (c.want != "") || got != c.want {
			t.Errorf("%q: %q, %v; want version %q", c.says, got, err, c.want)
		}
	}
	if _, err := newGit(t, git.Options{Path: "/nonexistent"}).Version(); err == nil {
		t.Error("a git that is not there: no error")
	}
}

// TestNothingOfTheMachine sets everything that a machine and a user can set for git, and sees that none of it is used.
func TestNothingOfTheMachine(t *testing.T) {
	home := t.TempDir()
	pwn := filepath.Join(home, "pwn")
	config := "[alias]\n\tx = !touch " + pwn + "\n[core]\n\tfsmonitor = touch " + pwn + "\n[user]\n\tname = leaked\n"
	for _, name := range []string{".gitconfig", ".config/git/config"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("GIT_DIR", home)
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "user.name")
	t.Setenv("GIT_CONFIG_VALUE_0", "leaked")
	t.Setenv("GIT_SSH_COMMAND", "touch "+pwn)
	t.Setenv("GIT_EXTERNAL_DIFF", "touch "+pwn)
	repo := ""
	{
		cmd := exec.Command("git", "init", "-q", filepath.Join(home, "r"))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		repo = filepath.Join(home, "r", ".git")
	}
	g := newGit(t, git.Options{})
	out, err := g.Run(t.Context(), git.Call{GitDir: repo, Args: []string{"config", "--list"}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "leaked") || strings.Contains(string(out), "alias") {
		t.Errorf("configuration of the machine is in use:\n%s", out)
	}
	if _, err := g.Run(t.Context(), git.Call{GitDir: repo, Args: []string{"x"}}); err == nil {
		t.Error("an alias of the user was found")
	}
	if _, err := g.Run(t.Context(), git.Call{GitDir: repo, Args: []string{"config", "--global", "a.b", "c"}}); err == nil {
		t.Error("the global configuration could be written")
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("/dev/null is %v, %v", info, err)
	}
	if _, err := os.Stat(pwn); err == nil {
		t.Error("a command of the machine's configuration was run")
	}
}

func TestHooksDoNotRun(t *testing.T) {
	t.Parallel()
	dir := newRepo(t)
	pwn := filepath.Join(t.TempDir(), "pwn")
	hook := filepath.Join(dir, ".git/hooks/reference-transaction")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+pwn+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	g := newGit(t, git.Options{})
	id, err := g.Run(t.Context(), git.Call{GitDir: dir + "/.git", Args: []string{"hash-object", "-w", "--stdin"}, Stdin: strings.NewReader("x")})
	if err != nil {
		t.Fatal(err)
	}
	ref := []string{"update-ref", "refs/x/y", strings.TrimSpace(string(id))}
	if _, err := g.Run(t.Context(), git.Call{GitDir: dir + "/.git", Args: ref}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(pwn); err == nil {
		t.Error("the hook was run")
	}
	cmd := exec.Command("git", "update-ref", "refs/x/z", ref[2])
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(pwn); err != nil {
		t.Error("the control did not fire: this test proves nothing")
	}
}

func TestTransportMustBeNamed(t *testing.T) {
	t.Parallel()
	g := newGit(t, git.Options{})
	dir := newRepo(t)
	for _, c := range []struct {
		url       string
		transport git.Transport
	}{
		{"file://" + dir, git.NoTransport}, {dir, git.NoTransport}, {dir, git.HTTP}, {"ext::sh -c true", git.HTTP},
		{"ext::sh -c true", git.Local}, {"ssh://localhost/x", git.HTTP}, {"http://127.0.0.1:1/x", git.Local}, {"git://127.0.0.1:1/x", git.HTTP},
	} {
		_, err := g.Run(t.Context(), git.Call{Args: []string{"ls-remote", c.url}, Transport: c.transport})
		if err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s by %q: %v, want a refusal", c.url, c.transport, err)
		}
	}
}

func TestContextKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	g := newGit(t, git.Options{})
	dir := newRepo(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	errs := make(chan error, 1)
	why := errors.New("enough")
	go func() {
		// The alias stands for the helpers that git starts; the pipe tells when the last of them is dead.
		_, err := g.Run(ctx, git.Call{GitDir: dir + "/.git", Config: []string{"alias.x=!echo on; sleep 1000; true"}, Args: []string{"x"},
			Stdout: w, Hold: []*os.File{w}})
		w.Close()
		errs <- err
	}()
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if err := <-errs; !errors.Is(err, why) {
		t.Errorf("Run: %v, want %v", err, why)
	}
	var rest bytes.Buffer
	if _, err := rest.ReadFrom(r); err != nil { // ends when nobody holds the pipe any more
		t.Error(err)
	}
	_, err = g.Run(t.Context(), git.Call{GitDir: dir + "/.git", Config: []string{"alias.x=!sleep 1000"}, Args: []string{"x"}, Timeout: 50 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run with a timeout: %v", err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	g := newGit(t, git.Options{})
	secret := "ghs_" + strings.Repeat("x", 520)
	call := git.Call{Transport: git.HTTP, Credentials: func(context.Context) (string, redact.Secret, error) {
		return "x-access-token", redact.NewSecret(secret), nil
	}}
	// Two requests in one call, and what the processes of it can be seen with.
	call.Config = []string{`alias.look=!for i in 1 2; do printf 'protocol=https\nhost=example.com\n\n' | git credential fill; done; tr '\0' ' ' </proc/$PPID/cmdline; env`}
	call.Args = []string{"look"}
	out, err := g.Run(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	pair := "protocol=https\nhost=example.com\nusername=x-access-token\npassword=" + secret + "\n"
	if !strings.HasPrefix(string(out), pair+pair) {
		t.Errorf("git was given %q", out)
	}
	if n := strings.Count(string(out), secret); n != 2 {
		t.Errorf("the secret can be seen %d times, want the 2 answers only", n)
	}
	call.Config, call.Args = []string{"alias.fail=!echo " + secret + " >&2; exit 3"}, []string{"fail"}
	_, err = g.Run(t.Context(), call)
	var failed *git.Error
	if !errors.As(err, &failed) || strings.Contains(failed.Stderr+err.Error(), secret) {
		t.Errorf("error: %v", err)
	}
	refused := errors.New("no token")
	call.Credentials = func(context.Context) (string, redact.Secret, error) { return "", redact.Secret{}, refused }
	if _, err := g.Run(t.Context(), call); !errors.Is(err, refused) {
		t.Errorf("error: %v, want %v", err, refused)
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	e := &git.Error{Args: []string{"push"}, Kind: git.ErrRefused, Exit: 1, Stderr: "remote: error: GH006: Protected branch update failed\r\n" +
		"hint: try again\nTo https://example.com/x\nerror: failed to push some refs to 'x'\n!\tHEAD:refs/heads/m\t[remote rejected] (protected branch hook declined)\n"}
	want := "remote: error: GH006: Protected branch update failed; !\tHEAD:refs/heads/m\t[remote rejected] (protected branch hook declined)"
	if diff := cmp.Diff(want, e.Reason()); diff != "" {
		t.Errorf("reason (-want +got):\n%s", diff)
	}
}

// TestNameThatCannotBeCheckedOut: no repetition mends a tree with such a name.
func TestNameThatCannotBeCheckedOut(t *testing.T) {
	t.Parallel()
	g, dir := newGit(t, git.Options{}), newRepo(t)
	run := func(stdin string, args ...string) (string, error) {
		out, err := g.Run(t.Context(), git.Call{GitDir: filepath.Join(dir, ".git"), WorkTree: dir, Dir: dir, Args: args, Stdin: strings.NewReader(stdin)})
		return strings.TrimSpace(string(out)), err
	}
	blob, err := run("x", "hash-object", "-w", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"git~1", strings.Repeat("x", 300)} {
		tree, err := run("100644 blob "+blob+"\t"+name+"\n", "mktree")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run("", "read-tree", "--reset", "-u", tree); !errors.Is(err, git.ErrPath) {
			t.Errorf("%.10s: %v, want ErrPath", name, err)
		}
	}
}
