package mission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// ensureCommit fetches what the refspec names, and the commit itself if that did not bring it: a branch may have been moved
// since the mission pinned its base.
func (e *Engine) ensureCommit(ctx context.Context, m *store.Mission, commit, refspec string) error {
	key := storeKey(m.RepositoryID)
	if _, err := e.Git.Resolve(ctx, key, commit+"^{commit}"); err == nil {
		return nil
	}
	ctx = e.sayingHowFar(ctx, m)
	remote := e.remote(m, installation.Read)
	err := e.Git.Fetch(ctx, remote, refspec)
	if err != nil && !errors.Is(err, git.ErrNoRef) {
		return fmt.Errorf("fetch %s/%s: %w", m.Owner, m.Name, err)
	}
	if _, err := e.Git.Resolve(ctx, key, commit+"^{commit}"); err == nil {
		return nil
	}
	if err := e.Git.Fetch(ctx, remote, "+"+commit+":refs/sandpiper/fetch/commits/"+commit); err != nil {
		return fmt.Errorf("fetch %s of %s/%s: %w", commit, m.Owner, m.Name, err)
	}
	return nil
}

// makeSandbox makes or finds the sandbox of a run.
func (e *Engine) makeSandbox(ctx context.Context, m *store.Mission, run, base, from string, parent sandbox.ID) (sandbox.ID, error) {
	source := sandbox.Source{
		Key: storeKey(m.RepositoryID), URL: fmt.Sprintf("%s/%s/%s", e.GitHubURL, m.Owner, m.Name), Base: base, From: from,
	}
	backend, err := e.backendOf(ctx, m.Run)
	if err != nil {
		return "", err
	}
	id, err := e.Sandboxes.Create(ctx, m.ID, source, sandbox.Options{ID: sandbox.ID(run), Backend: backend, Parent: parent})
	if err != nil {
		return "", fmt.Errorf("sandbox %s: %w", run, err)
	}
	return id, nil
}

func (e *Engine) describeSandbox(m *store.Mission, id sandbox.ID) string {
	r, err := e.Sandboxes.Record(id)
	if err != nil {
		return string(id)
	}
	by, network := "bubblewrap", "no network"
	if r.Backend == "container" {
		by = "a container of its own"
	}
	if open := networkOf(m); len(open) > 0 {
		network = "network to " + strings.Join(open, ", ") + " only"
	}
	return fmt.Sprintf("%s: %s, %s, %s, no credential", id, r.Backend, by, network)
}

// createForIssue makes the sandbox at the pinned base and lays what the agent is given beside it.
func (e *Engine) createForIssue(ctx context.Context, m *store.Mission) (next, error) {
	talk := &conversation{engine: e, mission: m}
	if held, err := e.trusted(ctx, m, talk); held != nil || err != nil {
		return orNext(held), err
	}
	defer e.tellLater(ctx, m)()
	base, refspec, from := baseOf(m)
	if err := e.ensureCommit(ctx, m, base, refspec); err != nil {
		return next{}, err
	}
	id, err := e.makeSandbox(ctx, m, m.Run, base, from, "")
	if err != nil {
		return next{}, err
	}
	if err := e.setup(ctx, m, id, base); err != nil {
		return next{}, err
	}
	run := &store.Run{ID: m.Run, Mission: m.ID, Attempt: m.Attempt, Base: base, CreatedAt: e.Now()}
	if run.Receipt, err = e.hydrate(ctx, m, talk); err != nil {
		return next{}, err
	}
	if err := e.Store.SaveRun(ctx, run); err != nil {
		return next{}, err
	}
	return next{step: stepExecute, found: e.describeSandbox(m, id)}, nil
}

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

func (e *Engine) runDir(run string) string { return filepath.Join(e.StateDir, "runs", run) }

// marshal is for values of our own types, which always can be.
func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("mission: %T as JSON: %v", v, err))
	}
	return string(text)
}
