package mission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// complete shows the end of a check of a checks mission. It may be called again.
func (e *Engine) complete(ctx context.Context, gh *github.Client, m *store.Mission, r checks.Result) error {
	if m.Kind == store.KindChecks { // a merge group is made anew by its queue
		r.Actions = []string{checks.ActionRetry, checks.ActionKeep}
	}
	_, err := e.Reporter.Complete(ctx, gh, e.target(m), checkKey(m, r.Check), r)
	return err
}

func (e *Engine) completeAll(ctx context.Context, gh *github.Client, m *store.Mission, results []checks.Result) error {
	for _, r := range results {
		if err := e.complete(ctx, gh, m, r); err != nil {
			return err
		}
	}
	return nil
}

// offerButtons puts buttons on results; those that passed do not show them.
func offerButtons(results []checks.Result, identifiers ...string) {
	for i := range results {
		results[i].Actions = identifiers
	}
}

// watchChecks shows the checks of a mission while they run.
func (e *Engine) watchChecks(gh *github.Client, m *store.Mission) checks.Watch {
	return checks.Watch{
		Log: e.Sandboxes.Log,
		Progress: func(ctx context.Context, c checks.Check, last string) {
			if err := e.Reporter.Progress(ctx, gh, e.target(m), checkKey(m, c), last); err != nil && ctx.Err() == nil {
				e.Log.Warn("progress of a check not shown", "mission", m.ID, "check", c.Name, "error", err)
			}
		},
	}
}

// baseOfPull is the commit where the head of a checks mission leaves the base branch; "" where there is none, or where the policy's
// branch is not what it is for.
func (e *Engine) baseOfPull(ctx context.Context, m *store.Mission) (commit, branch string, err error) {
	refspec := fmt.Sprintf("+refs/heads/%s:refs/sandpiper/fetch/heads/%[1]s", m.BaseBranch)
	if err := e.ensureCommit(ctx, m, m.Base, refspec); err != nil {
		return "", "", err
	}
	out, err := e.Git.Read(ctx, storeKey(m.RepositoryID), git.Call{Args: []string{"merge-base", m.Base, m.Head}})
	var none *git.Error
	if errors.As(err, &none) && none.Exit == 1 {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("where %.7s leaves %s: %w", m.Head, m.BaseBranch, err)
	}
	return string(out[:max(len(out)-1, 0)]), m.BaseBranch, nil
}

// pressed obeys a button of a Check Run. Whoever can read may press it, so the permission is looked up.
func (e *Engine) pressed(ctx context.Context, c webhooks.CheckAction) (string, error) {
	if c.AppID != e.AppID {
		return "ignored: a check of another App", nil
	}
	if c.Identifier == checks.ActionRetry {
		return e.rerun(ctx, c.Meta, c.AppID, c.HeadSHA, c.Name)
	}
	id, ours := checks.ParseExternalID(c.ExternalID)
	if c.Identifier != checks.ActionFix && c.Identifier != checks.ActionKeep || !ours {
		return fmt.Sprintf("ignored: no button %q", c.Identifier), nil
	}
	m, err := e.Store.Mission(ctx, id.Mission)
	if errors.Is(err, store.ErrNone) || err == nil && m.RepositoryID != c.Repo.ID {
		return "ignored: no mission of ours has this check", nil
	}
	if err != nil {
		return "", err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return "", err
	}
	if who, err := standing.Of(ctx, gh, repoOf(m), c.Sender.Login); err != nil || !who.MayWrite() {
		return "refused: " + c.Sender.Login + " may not write here", err
	}
	if c.Identifier == checks.ActionKeep {
		return e.keepSandbox(ctx, gh, m, id, c)
	}
	if m.Ended() || m.Pull == 0 {
		return "ignored: no open pull request of ours has this check", nil
	}
	head, err := e.branchHead(ctx, m)
	if err != nil {
		return "", err
	}
	return "mission " + m.ID + ": asked for a round", e.Store.Ask(ctx, store.Ask{
		Key: "button:" + c.DeliveryID, Mission: m.ID, Login: c.Sender.Login, Head: head, HandsBack: true, At: e.Now(),
		Instruction: "Mend the check " + id.Check + ".",
	}, e.Now())
}

// mendFor is how long after its end a mission's Check Runs are looked at, and how long its own writes are waited for.
const (
	mendFor   = 24 * time.Hour
	mendAfter = 20 * time.Second
)

// mend concludes Check Runs that a mission has left open: one that is never completed blocks a pull request for ever
// (buttondown/roadmap#2494). Each mission that has ended is looked at once.
func (e *Engine) mend(ctx context.Context) error {
	recent, err := e.Store.Missions(ctx, false, 200)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range recent {
		if !m.Ended() || m.Head == "" || e.Now().Sub(m.EndedAt) > mendFor || e.Now().Sub(m.EndedAt) < mendAfter {
			continue
		}
		key := "mended:" + m.ID
		if _, done, err := e.Store.Effect(ctx, key); done || err != nil {
			errs = append(errs, err)
			continue
		}
		if err := e.mendRuns(ctx, m); err != nil && outcome.Class(err) == nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, e.Store.AddEffect(ctx, key, 0, e.Now()))
	}
	return errors.Join(errs...)
}

func (e *Engine) mendRuns(ctx context.Context, m *store.Mission) error {
	if err := e.gate.End(ctx, m, "", "the mission has ended ("+cmp.Or(m.Message, m.Outcome)+")"); err != nil {
		return err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Checks)
	if err != nil {
		return err
	}
	open, err := e.Reporter.OpenRuns(ctx, gh, e.target(m))
	if err != nil {
		return err
	}
	for _, run := range open {
		key, _ := checks.ParseExternalID(run.GetExternalID())
		if key.Mission != m.ID {
			continue
		}
		e.Log.Warn("a Check Run was left open", "mission", m.ID, "check", key.Check)
		r := checks.Superseded(checks.Check{Name: key.Check}, "the mission has ended ("+cmp.Or(m.Message, m.Outcome)+")", e.Now())
		if _, err := e.Reporter.Complete(ctx, gh, e.target(m), key, r); err != nil {
			return err
		}
	}
	return nil
}
