package mission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// allowance is what the agent of the present run may use of the broker: what earlier runs of the mission have left of the budget. It
// is the same at each call.
func (e *Engine) allowance(ctx context.Context, m *store.Mission, p *policy.Policy) (*sandbox.Grant, error) {
	left := int64(p.Budget.Money)
	for earlier := (store.Mission{ID: m.ID, Attempt: m.Attempt - 1}); earlier.Attempt > 0; earlier.Attempt-- {
		run, err := e.Store.Run(ctx, runID(&earlier))
		if errors.Is(err, store.ErrNone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if spent := spentOf(run); spent != nil {
			left -= spent.Money
		}
	}
	if left <= 0 {
		return nil, outcome.End(outcome.OutOfBudget, nil, "the %s that the policy allows for a mission are used up by its earlier runs", p.Budget.Money)
	}
	return &sandbox.Grant{Git: true, Money: left}, nil
}

// spentOf is what the agent of a run used of the broker; nil where that is not known.
func spentOf(run *store.Run) *sandbox.Spent {
	var exit sandbox.Exit
	if json.Unmarshal([]byte(run.Exit), &exit) != nil {
		return nil
	}
	return exit.Spent
}

// blame says that the budget ended the work of an agent that failed with nothing left of it: its own words are about an API that
// refused.
func (e *Engine) blame(ctx context.Context, m *store.Mission, run *store.Run, final error) error {
	p, err := policyOf(m)
	if err != nil {
		return err
	}
	grant, err := e.allowance(ctx, m, p)
	if err != nil {
		return err
	}
	if spent := spentOf(run); spent == nil || spent.Money < grant.Money {
		return final
	}
	return outcome.End(outcome.OutOfBudget, final, "the agent used up the %s that the policy allows for a mission, and failed then; its changes are kept in the store and were not promoted", p.Budget.Money)
}

// describeSpent is for the log and for people.
func describeSpent(s *sandbox.Spent) string {
	if s == nil || s.Requests == 0 {
		return ""
	}
	return fmt.Sprintf(", %d requests to its model, %d tokens in and %d out, %.2f USD", s.Requests, s.Input, s.Output, float64(s.Money)/1e6)
}
