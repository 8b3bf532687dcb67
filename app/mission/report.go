package mission

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
)

// report shows each check as a Check Run on the commit that was promoted.
func (e *Engine) report(ctx context.Context, m *store.Mission) (next, error) {
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return next{}, err
	}
	results, err := resultsOf(run)
	if err != nil {
		return next{}, err
	}
	o, err := offerOf(run)
	if err != nil {
		return next{}, err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Checks)
	if err != nil {
		return next{}, err
	}
	fresh, err := e.firstReport(ctx, m)
	if err != nil {
		return next{}, err
	}
	results = append(results, e.gatesResult(o, run))
	var all []checks.Final
	for _, r := range results {
		all = append(all, checks.Final{Key: checkKey(m, r.Check), Result: r})
	}
	target := e.target(m)
	target.Fresh = fresh
	err = e.Reporter.CompleteAll(ctx, gh, target, all)
	if errors.Is(err, checks.ErrGone) || errors.Is(err, checks.ErrNoCommit) {
		e.Log.Warn("checks not reported", "mission", m.ID, "error", err)
	} else if err != nil {
		return next{}, err
	}
	if err := e.gate.Set(ctx, m, fresh); err != nil {
		return next{}, err
	}
	if err := e.answer(ctx, m, run); err != nil {
		return next{}, err
	}
	return next{step: stepArchive, found: fmt.Sprintf("%d Check Runs on %.7s", len(results), m.Head)}, nil
}

// firstReport says whether nothing of the mission was ever shown on its pull request, so that what is there need not be asked.
// The intent is recorded before the first call: after an answer that was lost, or a kill, it is asked.
func (e *Engine) firstReport(ctx context.Context, m *store.Mission) (bool, error) {
	key := "intent:report:" + m.ID
	_, tried, err := e.Store.Effect(ctx, key)
	if err != nil || tried {
		return false, err
	}
	return true, e.Store.AddEffect(ctx, key, 0, e.Now())
}
