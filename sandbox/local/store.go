package local

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/fastimport"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/removal"
)

// Key is that of the store of a workspace.
func Key(w sandbox.Workspace) string { return strings.TrimSuffix(filepath.Base(w.Store), ".git") }

// Git runs git in the store of a workspace.
func Git(stores *gitstore.Stores, w sandbox.Workspace) fastimport.Runner {
	return func(ctx context.Context, c git.Call) ([]byte, error) { return stores.Run(ctx, Key(w), c) }
}

// Remove takes things away from the directory of a run, in their order.
func Remove(w sandbox.Workspace, names ...string) error {
	for _, name := range names {
		if err := removal.All(filepath.Join(w.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}
