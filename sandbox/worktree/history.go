package worktree

import (
	"path/filepath"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

var (
	_ sandbox.Historian = (*Backend)(nil)
	_ sandbox.Layered   = (*Backend)(nil)
)

// GitDir is the private git directory of a run.
func (b *Backend) GitDir(w sandbox.Workspace) string { return filepath.Join(w.Dir, gitDir) }

// Home is the home directory of a run.
func (b *Backend) Home(w sandbox.Workspace) string { return filepath.Join(w.Dir, home) }

// Laid measures anew what the run takes before its commands.
func (b *Backend) Laid(w sandbox.Workspace) error {
	usage, err := jail.Measure(b.writable(w)...)
	if err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(w.Dir, used), usage)
}
