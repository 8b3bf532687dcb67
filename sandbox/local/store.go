package local

import (
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/removal"
)

// Key is that of the store of a workspace.
func Key(w sandbox.Workspace) string { return strings.TrimSuffix(filepath.Base(w.Store), ".git") }

// Store is that of a workspace.
func Store(stores *gitstore.Stores, w sandbox.Workspace) gitstore.At { return stores.At(Key(w)) }

// Remove takes things away from the directory of a run, in their order.
func Remove(w sandbox.Workspace, names ...string) error {
	for _, name := range names {
		if err := removal.All(filepath.Join(w.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}
