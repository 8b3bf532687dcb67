package mission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// An update is a round that starts from the newest commit of the base branch instead of the head of the pull request, because
// the two do not merge. The agent is given both sides; what it makes is pushed as a merge onto the branch.

// updateKey begins the key of a wish for one.
const updateKey = "update:"

func isUpdate(m *store.Mission) bool { return taskOf(m).Update }

// taskOf is a mission's task; the step that takes it has said if it cannot be read.
func taskOf(m *store.Mission) (t task) {
	_ = json.Unmarshal([]byte(m.Task), &t)
	return t
}

// beginUpdate pins the base anew if one of the wishes is for an update, and says so. Every other round is none.
func (e *Engine) beginUpdate(ctx context.Context, m *store.Mission, asks []store.Ask) (said string, err error) {
	var t task
	if err := json.Unmarshal([]byte(m.Task), &t); err != nil {
		return "", fmt.Errorf("task of mission %s: %w", m.ID, err)
	}
	t.Update = slices.ContainsFunc(asks, func(a store.Ask) bool { return strings.HasPrefix(a.Key, updateKey) })
	if t.Update {
		ref := "refs/heads/" + m.BaseBranch
		refs, err := e.Git.LsRemote(ctx, e.remote(m, installation.Read), ref)
		if err != nil {
			return "", fmt.Errorf("branch %s: %w", m.BaseBranch, err)
		}
		if refs[ref] == "" {
			return "", outcome.End(outcome.BlockedByRule, nil, "the branch %q that the pull request is for is gone", m.BaseBranch)
		}
		m.Base = refs[ref]
		said = fmt.Sprintf(" and %.7s (%s)", m.Base, m.BaseBranch)
	}
	m.Task = marshal(t)
	return said, nil
}

// sides are what the agent of an update is given of the pull request.
func (e *Engine) sides(ctx context.Context, m *store.Mission) (*agent.Sides, error) {
	head := fmt.Sprintf("+refs/pull/%d/head:refs/sandpiper/fetch/pull/%[1]d", m.Pull)
	if err := e.ensureCommit(ctx, m, m.Head, head); err != nil {
		return nil, err
	}
	s, err := promote.Stored{Stores: e.Git, Remote: e.remote(m, installation.Read)}.Sides(ctx, m.Base, m.Head)
	if err != nil {
		return nil, err
	}
	return &agent.Sides{Branch: m.BaseBranch, Base: m.Base, Patch: string(s.Patch), Files: s.Files}, nil
}
