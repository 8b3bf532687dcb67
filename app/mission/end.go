package mission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// ended records how a mission ended.
func (e *Engine) ended(ctx context.Context, m *store.Mission) {
	e.Audit(ctx, audit.Entry{Kind: "mission.ended", Mission: m.ID, Run: m.Run, Repository: m.Owner + "/" + m.Name,
		Data: map[string]any{"outcome": m.Outcome, "message": m.Message, "pull": m.Pull, "head": m.Head}})
}

// archive ends the work of a run: everything in its sandboxes is recorded, and they go.
func (e *Engine) archive(ctx context.Context, m *store.Mission) (next, error) {
	if err := e.clear(ctx, m, "the run is over"); err != nil {
		return next{}, err
	}
	if err := e.finish(ctx, m); err != nil {
		return next{}, err
	}
	held, err := e.onHold(ctx, m)
	if err != nil {
		return next{}, err
	}
	found := fmt.Sprintf("for a review of %.7s by a person with write access other than %s", m.Head, m.Requester)
	switch {
	case m.Kind == store.KindChecks:
		found = "for a new commit"
	case held:
		found = "for a person: " + m.Message
	}
	return next{step: stepWaiting, found: found}, nil // which looks whether more was asked meanwhile
}

// close is archive for a mission that waits for nothing more.
func (e *Engine) close(ctx context.Context, m *store.Mission) (next, error) {
	if err := e.clear(ctx, m, cmp.Or(m.Message, "the mission is over")); err != nil {
		return next{}, err
	}
	if err := e.takeLabel(ctx, m); err != nil {
		e.Log.Warn("the label stays on", "mission", m.ID, "error", err)
	}
	if err := e.finish(ctx, m); err != nil {
		return next{}, err
	}
	return next{step: stepEnded, found: cmp.Or(m.Message, m.Outcome)}, nil
}

// finish tells the end. The comment is a courtesy: an issue that is gone keeps no mission from ending.
func (e *Engine) finish(ctx context.Context, m *store.Mission) error {
	err := e.tellEnd(ctx, m)
	if err != nil && outcome.Class(err) == nil && m.Failures < outcome.MostTries-1 && m.Defects < outcome.MostDefects-1 {
		return err
	}
	if err != nil {
		return e.untoldEnd(ctx, m, err)
	}
	return nil
}

func (e *Engine) tellEnd(ctx context.Context, m *store.Mission) error {
	m.UpdatedAt = e.Now()
	return errors.Join(e.tell(ctx, m), e.tellRound(ctx, m))
}

// untoldEnd notes that the end could not be told.
func (e *Engine) untoldEnd(ctx context.Context, m *store.Mission, err error) error {
	e.Log.Warn("the end could not be told on the issue", "mission", m.ID, "error", err)
	return e.Store.AddEffect(ctx, untold+m.ID, 0, e.Now())
}

// untold begins the key of each mission whose end could not be told: the App may get its access back.
const untold = "untold:"

// catchUp tells what could not be told, and concludes the Check Runs that stayed open, when the App has its access to an
// installation back, or to repositories of it. Nobody waits for news that are older than a day.
func (e *Engine) catchUp(ctx context.Context, c webhooks.InstallationChanged) error {
	recent, err := e.Store.Missions(ctx, false, 200)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range recent {
		back := m.InstallationID == c.InstallationID || slices.ContainsFunc(c.Added, func(r webhooks.Repo) bool { return r.ID == m.RepositoryID })
		if !back || !m.Ended() || e.Now().Sub(m.EndedAt) > mendFor {
			continue
		}
		if _, missing, err := e.Store.Effect(ctx, untold+m.ID); !missing || err != nil {
			errs = append(errs, err)
			continue
		}
		m.InstallationID = c.InstallationID // one that was removed comes back as another
		err := e.tell(ctx, m)
		if m.Head != "" {
			err = errors.Join(err, e.mendRuns(ctx, m))
		}
		if outcome.Class(err) == nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// clear ends what a run still has open: Check Runs are concluded, sandboxes recorded and removed.
func (e *Engine) clear(ctx context.Context, m *store.Mission, why string) error {
	run, err := e.Store.Run(ctx, m.Run)
	none := errors.Is(err, store.ErrNone)
	if none {
		run = &store.Run{ID: m.Run}
	} else if err != nil {
		return err
	}
	o, err := offerOf(run)
	if err != nil {
		return err
	}
	for _, id := range []sandbox.ID{sandbox.ID(m.Run), checksSandbox(m.Run, o), baseSandbox(checksSandbox(m.Run, o)), baseSandbox(sandbox.ID(m.Run))} {
		if err := e.clearSetup(ctx, m, id); err != nil {
			return err
		}
		if err := e.recordFindings(ctx, m, id); err != nil {
			return err
		}
		if _, err := e.Sandboxes.Discard(ctx, id); err != nil && !errors.Is(err, sandbox.ErrUnknown) {
			return fmt.Errorf("discard %s: %w", id, err)
		}
	}
	if none {
		return nil
	}
	if m.Kind != store.KindIssue {
		if err := e.cancelChecks(ctx, m, run, why); err != nil {
			return err
		}
	}
	if run.EndedAt.IsZero() {
		run.EndedAt = e.Now()
		return e.Store.SaveRun(ctx, run)
	}
	return nil
}
