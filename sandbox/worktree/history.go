package worktree

import (
	"path/filepath"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

var _ sandbox.Historian = (*Backend)(nil)

// GitDir is the private git directory of a run.
func (b *Backend) GitDir(w sandbox.Workspace) string { return filepath.Join(w.Dir, gitDir) }
