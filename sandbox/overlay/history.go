package overlay

import (
	"path/filepath"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

var (
	_ sandbox.Historian = (*Backend)(nil)
	_ sandbox.Layered   = (*Backend)(nil)
)

// GitDir is the upper layer of the private git directory: what was committed in the run. Where that has no HEAD it is at the base.
func (b *Backend) GitDir(w sandbox.Workspace) string { return filepath.Join(w.Dir, gitUpper) }

// Home is the home directory of a run.
func (b *Backend) Home(w sandbox.Workspace) string { return filepath.Join(w.Dir, home) }

// Laid has nothing to do: what lies in the upper layer counts against the run's limit of bytes, whoever put it there.
func (b *Backend) Laid(sandbox.Workspace) error { return nil }
