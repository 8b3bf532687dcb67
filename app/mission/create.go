package mission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
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
