package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// OpenSandboxes opens the stores and the manager of a state directory. It needs no settings of GitHub.
func OpenSandboxes(c *config.Config, supervisor []string, log *slog.Logger) (*gitstore.Stores, *sandbox.Manager, error) {
	g, err := git.New(git.Options{Log: log})
	if err != nil {
		return nil, nil, err
	}
	stores, err := gitstore.Open(filepath.Join(c.StateDir, "stores"), g)
	if err != nil {
		return nil, nil, err
	}
	manager, err := sandbox.Open(sandbox.Config{
		StateDir: c.StateDir, Stores: stores, Default: c.Backend, Supervisor: supervisor, Limits: c.Limits(), Log: log,
		// A supervisor has to build the same boundary as we would, and gets nothing else: no key, no secret.
		SupervisorEnv: []string{"PATH=" + os.Getenv("PATH"), "SANDPIPER_SYSTEM_PATHS=" + strings.Join(c.SystemPaths, ",")},
		Backends:      []sandbox.Backend{worktree.New(worktree.Options{Stores: stores, System: c.SystemPaths})},
	})
	return stores, manager, err
}
