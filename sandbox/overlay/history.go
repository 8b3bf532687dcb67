package overlay

import (
	"path/filepath"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

var _ sandbox.Historian = (*Backend)(nil)

// GitDir is the upper layer of the private git directory: what was committed in the run. Where that has no HEAD it is at the base.
func (b *Backend) GitDir(w sandbox.Workspace) string { return filepath.Join(w.Dir, gitUpper) }
