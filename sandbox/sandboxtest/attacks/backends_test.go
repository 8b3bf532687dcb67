package attacks

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/container"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/overlay"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// target is where attacks are made.
type target struct {
	name string
	try  func(t *testing.T, a attack)
}

// backends are those that this machine can run, and none.
func backends(t *testing.T) []target {
	t.Helper()
	out := []target{{"no sandbox", unscoped}}
	for _, name := range []string{"worktree", "overlay", "container"} {
		out = append(out, target{name, func(t *testing.T, a attack) { scoped(t, a, name) }})
	}
	return out
}

// unscoped makes an attack in a plain checkout. It has to succeed.
func unscoped(t *testing.T, a attack) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	if strings.HasPrefix(a.name, "kill ") {
		// In a session of its own everything of that user would go, other tests' victims among it.
		a.script = strings.ReplaceAll(a.script, "kill -9 -1", ":")
	}
	dir := filepath.Join(filepath.Dir(h.out), "checkout")
	must(t, os.Mkdir(dir, 0o777))
	if os.Geteuid() == 0 { // git wants it to belong to who uses it
		must(t, os.Chown(dir, jail.DefaultUID, jail.DefaultUID))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.SysProcAttr = dir, asAgent()
		cmd.Env = append(h.environment(dir), "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME="+filepath.Join(h.out, "home"))
		return cmd
	}
	setup := run("sh", "-ec", "git init -q . && echo one >a.txt && git add a.txt && git -c user.name=a -c user.email=a@example.com commit -qm one")
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("checkout: %v\n%s", err, out)
	}
	counting, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); h.count(counting) }()
	cmd := run("sh", "-c", script(a))
	cmd.Stdout, cmd.Stderr = &h.printed, &h.printed
	_ = cmd.Run()
	stop()
	<-done
	_ = run("git", "status").Run() // what a host does that does not know better
	if !eventually(func() bool { return a.breached(h) != "" }) {
		t.Errorf("it does nothing without a sandbox either:\n%.2000s", h.printed.String())
	}
}

// scoped makes an attack in a sandbox. It has to have no effect, and to have been made.
func scoped(t *testing.T, a attack, backend string) {
	f := open(t, backend)
	h := newHost(t)
	repo := sandboxtest.NewRepo(t)
	repo.Write("a.txt", "one\n")
	repo.Commit()
	id, err := f.Manager.Create(t.Context(), "m-attack", f.Source(t, repo), sandbox.Options{Limits: limits})
	var not *sandbox.ErrUnavailable
	if errors.As(err, &not) {
		t.Skip(not)
	}
	must(t, err)
	delta, err := f.Manager.Delta(id)
	must(t, err)
	workspace, err := f.Manager.Path(id)
	must(t, err)
	// What lies around where the launcher is.
	t.Cleanup(func() { _, _ = f.Manager.Discard(context.Background(), id) })
	counting, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.count(counting) }()
	c := sandbox.Command{Argv: []string{"sh", "-c", script(a)}, Env: h.environment(workspace), Timeout: time.Minute}
	exit, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{Out: &h.printed, Err: &h.printed})
	stop()
	<-done
	must(t, err)
	if text, err := os.ReadFile(filepath.Join(delta, ".control-"+h.nonce)); err != nil || string(text) != h.nonce {
		t.Errorf("inconclusive: the script did not write its workspace: %v; %+v\n%.2000s", err, exit, h.printed.String())
	}
	if !a.mayDie && !strings.Contains(h.printed.String(), "END "+h.nonce) {
		t.Errorf("inconclusive: the script did not come to its end: %+v\n%.2000s", exit, h.printed.String())
	}
	// The host looks at the workspace, as it does after each run.
	if _, err := f.Manager.CollectDiff(t.Context(), id); err == nil {
		_, err = f.Manager.ListChanges(t.Context(), id)
		must(t, err)
	}
	if why := a.breached(h); why != "" {
		t.Errorf("BREACH: %s: %+v\n%.2000s", why, exit, h.printed.String())
	}
}

func eventually(ok func() bool) bool {
	limit := time.NewTimer(3 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit.C:
			return false
		case <-tick.C:
		}
	}
	return true
}

func open(t *testing.T, backend string) sandboxtest.Fixture {
	t.Helper()
	needs := map[string]string{"worktree": "bwrap", "overlay": "bwrap", "container": "runc"}
	if _, err := exec.LookPath(needs[backend]); err != nil {
		t.Skipf("%s is not installed", needs[backend])
	}
	state := t.TempDir()
	f := sandboxtest.Fixture{StateDir: state}
	g, err := git.New(git.Options{})
	must(t, err)
	f.Stores, err = gitstore.Open(filepath.Join(state, "stores"), g)
	must(t, err)
	all := map[string]sandbox.Backend{
		"worktree":  worktree.New(worktree.Options{Stores: f.Stores}),
		"overlay":   overlay.New(overlay.Options{StateDir: state, Stores: f.Stores}),
		"container": container.New(container.Options{Options: worktree.Options{Stores: f.Stores}}),
	}
	f.Manager, err = sandbox.Open(sandbox.Config{StateDir: state, Stores: f.Stores, Backends: []sandbox.Backend{all[backend]}})
	must(t, err)
	return f
}
