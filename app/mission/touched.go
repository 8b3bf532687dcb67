package mission

import (
	"context"
	"fmt"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// plainDiff is a diff without context that no configuration, attribute or filter of the repository has a part in.
func plainDiff(from, to string, paths ...string) git.Call {
	args := []string{"diff-tree", "-r", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", from, to, "--"}
	return git.Call{Args: append(args, paths...)}
}

// touched are the lines that lie between two commits of the store. Without a base nothing is known of it.
func (e *Engine) touched(ctx context.Context, m *store.Mission, base, head string) (checks.Touched, error) {
	if base == "" {
		return nil, nil
	}
	diff, err := e.Git.Read(ctx, storeKey(m.RepositoryID), plainDiff(base, head))
	if err != nil {
		return nil, fmt.Errorf("lines between %.7s and %.7s: %w", base, head, err)
	}
	return checks.ReadDiff(diff), nil
}
