package mission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// inspect collects what the agent left, now that its last process is dead, and decides whether there is something to check.
func (e *Engine) inspect(ctx context.Context, m *store.Mission) (next, error) {
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return next{}, err
	}
	id := sandbox.ID(m.Run)
	said, err := e.agentOutcome(m, run)
	if err != nil {
		return next{}, err
	}
	if said.Reason == sandbox.HostFull { // what the bot keeps of the disk for itself must not be used up by a copy of what filled it
		if err := e.recordFindings(ctx, m, id); err != nil {
			return next{}, err
		}
		return next{}, verdict(said, 0)
	}
	if run.Result, err = e.Sandboxes.CollectDiff(ctx, id); err != nil {
		return next{}, fmt.Errorf("collect %s: %w", id, err)
	}
	changes, err := e.Sandboxes.ListChanges(ctx, id)
	if err != nil {
		return next{}, fmt.Errorf("changes of %s: %w", id, err)
	}
	run.Changes = marshal(changes)
	if err := e.Store.SaveRun(ctx, run); err != nil {
		return next{}, err
	}
	if err := e.recordFindings(ctx, m, id); err != nil {
		return next{}, err
	}
	if final := verdict(said, len(changes)); final != nil {
		return next{}, e.blame(ctx, m, run, e.beside(ctx, m, final))
	}
	return next{step: stepVerify, found: describeChanges(changes)}, nil
}

// beside looks, where the files are as they were, for commits that are not in them: an agent may have left its work on a branch, or in
// a stash, and gone back. Which of them was meant is not the bot's to guess.
func (e *Engine) beside(ctx context.Context, m *store.Mission, final error) error {
	if ended := (*outcome.Ended)(nil); !errors.As(final, &ended) || ended.Outcome != outcome.NoChange {
		return final
	}
	made, err := e.Sandboxes.AgentCommits(ctx, sandbox.ID(m.Run))
	if err != nil {
		e.Log.Warn("the commits of the agent cannot be looked at", "mission", m.ID, "run", m.Run, "error", err)
		return final
	}
	var names []string
	for _, t := range made.Tips {
		names = append(names, strings.TrimPrefix(t.Name, "refs/heads/"))
	}
	if len(names) == 0 {
		return final
	}
	return outcome.End(outcome.GaveUp, final, "the agent left the files as they were, and commits beside them: %s. They were not promoted and are kept; where the bot runs: `sandpiper sandbox recover %s --to DIRECTORY`",
		quote.Cut(strings.Join(names, ", "), 200, "…"), m.Run)
}

func describeChanges(changes []sandbox.Change) string {
	if len(changes) == 1 {
		c := changes[0]
		return fmt.Sprintf("1 change: %q %s +%d −%d", c.Path, c.Kind, c.Added, c.Removed)
	}
	added, removed := 0, 0
	for _, c := range changes {
		added, removed = added+max(c.Added, 0), removed+max(c.Removed, 0)
	}
	return fmt.Sprintf("%d changes: +%d −%d", len(changes), added, removed)
}
