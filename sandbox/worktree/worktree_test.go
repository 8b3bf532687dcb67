package worktree_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

func open(state string, supervisor []string) (sandboxtest.Fixture, error) {
	f := sandboxtest.Fixture{StateDir: state}
	g, err := git.New(git.Options{})
	if err != nil {
		return f, err
	}
	if f.Stores, err = gitstore.Open(filepath.Join(state, "stores"), g); err != nil {
		return f, err
	}
	f.Manager, err = sandbox.Open(sandbox.Config{StateDir: state, Stores: f.Stores, Supervisor: supervisor,
		Backends: []sandbox.Backend{worktree.New(worktree.Options{Stores: f.Stores, Egress: toLoopback})}})
	return f, err
}

func TestMain(m *testing.M) { sandboxtest.Main(m, open) }

// needsJail skips where nothing can be confined.
func needsJail(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap (bwrap) is not installed: nothing can be run in a sandbox")
	}
}

func TestConformance(t *testing.T) {
	needsJail(t)
	sandboxtest.Run(t, open)
}
