// Package sandboxtest is what every backend has to pass: the same cases, with real git and real processes.
//
// A backend's test calls Run with a function that makes a fixture, and Main from its TestMain, as detached commands are
// supervised by the test binary itself. The package must be imported by tests only.
package sandboxtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// Fixture is a manager over the backend under test.
type Fixture struct {
	Manager  *sandbox.Manager
	Stores   *gitstore.Stores
	StateDir string
}

// Opener opens a manager with the backend under test on a state directory. It is called in tests and in supervisors.
type Opener func(stateDir string, supervisor []string) (Fixture, error)

// Main runs the tests, or supervises a command if the manager under test has started this binary for that.
func Main(m *testing.M, open Opener) {
	if len(os.Args) == 5 && os.Args[1] == "supervise" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		f, err := open(os.Args[2], []string{os.Args[0], "supervise"})
		if err == nil {
			err = sandbox.Supervise(ctx, f.Manager, sandbox.ID(os.Args[3]), os.Args[4])
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 5 && os.Args[1] == "life" {
		f, err := open(os.Args[2], []string{os.Args[0], "supervise"})
		if err == nil {
			err = live(context.Background(), f, sandbox.ID(os.Args[3]), os.Args[4], func(s string) { fmt.Println(s) })
		}
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// New opens a fixture on a directory of the test.
func New(t *testing.T, open Opener) Fixture {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(func() { openUp(dir) })
	f, err := open(dir, []string{self, "supervise"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a supervisor has something to write after the end of its command
		eventually(t, "end of all supervisors", func() bool { return living(t, dir+"\x00") == 0 })
	})
	return f
}

// openUp makes what is left of sandboxes removable for an ordinary user: the kernel makes the work directories of overlays with
// mode 000, and a sandbox can do so too.
func openUp(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
}

// Repo is a repository of somebody: what sandboxes are made from.
type Repo struct {
	t   *testing.T
	Dir string
}

// NewRepo makes an empty one.
func NewRepo(t *testing.T) *Repo {
	t.Helper()
	r := &Repo{t: t, Dir: t.TempDir()}
	r.Git("init", "-q", "-b", "main")
	return r
}

// Git runs git in the repository as its owner would, with nothing of ours around it, and returns what it says.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	out, err := r.TryGit(args...)
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// TryGit is Git for what may fail.
func (r *Repo) TryGit(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.Dir + "/.nohome", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// Write writes a file, and its directories.
func (r *Repo) Write(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// Commit commits everything and returns the commit's id.
func (r *Repo) Commit() string {
	r.t.Helper()
	r.Git("add", "-A")
	r.Git("commit", "-q", "--allow-empty", "-m", "a commit")
	return r.Git("rev-parse", "HEAD")
}

// Source fetches the repository's HEAD into the store and gives it as the source of a sandbox.
func (f Fixture) Source(t *testing.T, r *Repo) sandbox.Source {
	t.Helper()
	remote := gitstore.Remote{Key: "local-test", URL: r.Dir}
	commit, from, err := f.Stores.FetchCommit(t.Context(), remote, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Source{Key: remote.Key, URL: r.Dir, Base: commit, From: from}
}

// Create makes a sandbox of the repository's HEAD.
func (f Fixture) Create(t *testing.T, r *Repo) sandbox.ID {
	t.Helper()
	id, err := f.Manager.Create(t.Context(), "m-test", f.Source(t, r), sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Sh runs a shell script in a sandbox and returns its output. It must end with 0.
func (f Fixture) Sh(t *testing.T, id sandbox.ID, script string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := f.Manager.Run(t.Context(), id, Shell(script), sandbox.Stdio{Out: &out, Err: &out})
	if err != nil || !exit.OK() {
		t.Fatalf("script in sandbox: %+v, %v\n%s", exit, err, out.String())
	}
	return out.String()
}

// Shell is a script as a command.
func Shell(script string) sandbox.Command {
	return sandbox.Command{Argv: []string{"sh", "-eu", "-c", script}}
}

// Store is a runner of plain read-only git commands in the store of a sandbox.
func (f Fixture) Store(t *testing.T, args ...string) string {
	t.Helper()
	out, err := f.Stores.Read(t.Context(), "local-test", git.Call{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
