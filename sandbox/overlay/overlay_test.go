package overlay_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/overlay"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
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
		Backends: []sandbox.Backend{overlay.New(overlay.Options{StateDir: state, Stores: f.Stores})}})
	return f, err
}

func TestMain(m *testing.M) { sandboxtest.Main(m, open) }

// needsOverlay skips where overlays or jails do not work, with the reason.
func needsOverlay(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	var not *sandbox.ErrUnavailable
	err := overlay.New(overlay.Options{StateDir: dir}).Available(t.Context())
	if errors.As(err, &not) {
		t.Skip(not)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	needsOverlay(t)
	sandboxtest.Run(t, open)
}
