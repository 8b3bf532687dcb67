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

// diffMost bounds what is held of a diff: a commit may change every line of a large repository.
const diffMost = 16 << 20

// readDiff gives a diff, and says whether it is longer than what is held of it.
func (e *Engine) readDiff(ctx context.Context, m *store.Mission, call git.Call) (diff []byte, cut bool, err error) {
	h := &git.Head{Most: diffMost}
	call.Stdout = h
	_, err = e.Git.Read(ctx, storeKey(m.RepositoryID), call)
	return h.Text, h.Cut(), err
}

// touched are the lines that lie between two commits of the store. Without a base nothing is known of it, nor of a diff that is too long.
func (e *Engine) touched(ctx context.Context, m *store.Mission, base, head string) (checks.Touched, error) {
	if base == "" {
		return nil, nil
	}
	diff, cut, err := e.readDiff(ctx, m, plainDiff(base, head))
	if cut {
		e.Log.Warn("a diff is too long for annotations to be sorted by it", "mission", m.ID, "base", base, "head", head)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lines between %.7s and %.7s: %w", base, head, err)
	}
	return checks.ReadDiff(diff), nil
}
