package mission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// pullTrigger is a wish to run a repository's checks on the head of a pull request.
type pullTrigger struct {
	meta   webhooks.Meta
	repo   installation.Repo
	number int
	title  string
	head   string
	only   string // one check by name; "" for all
	key    string
	by     webhooks.User
	label  string
}

// startChecks begins the checks of a pull request that was labelled or commanded.
func (e *Engine) startChecks(ctx context.Context, gh *github.Client, t trigger) (string, error) {
	pr, _, err := gh.PullRequests.Get(ctx, t.repo.Owner, t.repo.Name, t.issue.Number)
	if err != nil {
		return "", fmt.Errorf("pull request %d: %w", t.issue.Number, err)
	}
	return e.checkPull(ctx, pullTrigger{
		meta: t.meta, repo: t.repo, number: t.issue.Number, title: pr.GetTitle(), head: pr.GetHead().GetSHA(), key: t.key, by: t.by, label: t.label,
	})
}

// checkPull begins a checks mission, or has the one that is open run again.
func (e *Engine) checkPull(ctx context.Context, t pullTrigger) (string, error) {
	text, err := json.Marshal(task{Title: t.title, Label: t.label})
	if err != nil {
		return "", err
	}
	m := &store.Mission{
		Kind: store.KindChecks, InstallationID: t.repo.InstallationID, RepositoryID: t.repo.ID, Owner: t.repo.Owner, Name: t.repo.Name,
		Number: t.number, Title: t.title, Task: string(text), TriggerKey: t.key, Requester: t.by.Login, RequesterID: t.by.ID,
		TriggeredAt: e.Now(), Head: t.head, OnlyCheck: t.only, Step: stepTake, Attempt: 1,
	}
	err = e.insert(ctx, m)
	if !errors.Is(err, store.ErrOpen) {
		return "mission " + m.ID + " begun on " + t.head, err
	}
	there, err := e.open(ctx, t.repo.ID, t.number, store.KindChecks)
	if err != nil || there == nil {
		return "ignored: this trigger has started a mission before", err
	}
	if there.TriggerKey == t.key {
		return "mission " + there.ID + " has begun", nil
	}
	if err := e.Store.Supersede(ctx, there.ID, t.head, t.only, e.Now()); err != nil {
		return "", err
	}
	e.interrupt(there.ID)
	return "mission " + there.ID + " runs the checks again", e.unlabelPull(ctx, t)
}

func (e *Engine) unlabelPull(ctx context.Context, t pullTrigger) error {
	if t.label == "" {
		return nil
	}
	gh, err := e.GitHub.Client(ctx, t.repo, installation.Issues)
	if err != nil {
		return err
	}
	return removeLabel(ctx, gh, t.repo, t.number, t.label)
}

// takePull reads the head anew, pins the policy of the default branch, and queues a Check Run for each check.
func (e *Engine) takePull(ctx context.Context, m *store.Mission) (next, error) {
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Read)
	if err != nil {
		return next{}, err
	}
	issues, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return next{}, err
	}
	pr, _, err := issues.PullRequests.Get(ctx, m.Owner, m.Name, m.Number)
	if err != nil {
		return next{}, fmt.Errorf("pull request %d: %w", m.Number, err)
	}
	if pr.GetState() != "open" {
		return next{}, outcome.End(outcome.Cancelled, nil, "the pull request is closed")
	}
	m.Head = pr.GetHead().GetSHA()
	if err := e.Store.Superseded(ctx, m.ID, m.Head); err != nil {
		return next{}, err
	}
	// A newer policy counts for a newer head; the text of the pull request's own branch never does.
	m.Base, m.Policy = "", ""
	if err := e.pinBase(ctx, gh, m); err != nil {
		return next{}, err
	}
	if _, err := e.readPolicy(ctx, gh, m); err != nil {
		return next{}, err
	}
	if err := e.takeLabel(ctx, m); err != nil {
		return next{}, err
	}
	return next{step: stepQueue, found: fmt.Sprintf("mission %s, head %.7s of #%d", m.ID, m.Head, m.Number)}, nil
}

// createForPull makes a sandbox of the head. It is fetched from refs/pull/N/head of the base repository, which GitHub keeps
// for forks too, also when the fork is gone.
func (e *Engine) createForPull(ctx context.Context, m *store.Mission) (next, error) {
	if held, err := e.trusted(ctx, m, nil); held != nil || err != nil {
		return orNext(held), err
	}
	into := fmt.Sprintf("refs/sandpiper/fetch/pull/%d", m.Number)
	if err := e.ensureCommit(ctx, m, m.Head, fmt.Sprintf("+refs/pull/%d/head:%s", m.Number, into)); err != nil {
		return next{}, err
	}
	id, err := e.makeSandbox(ctx, m, m.Run, m.Head, fmt.Sprintf("pull/%d", m.Number), "")
	if err != nil {
		return next{}, err
	}
	if err := e.setup(ctx, m, id, m.Head); err != nil {
		return next{}, err
	}
	return next{step: stepVerify, found: e.describeSandbox(m, id)}, nil
}

// reopened goes on with the checks of a pull request that had them until it was closed: whoever asked for them then asked for those of
// each head to come.
func (e *Engine) reopened(ctx context.Context, c webhooks.PullRequestChanged) (string, error) {
	last, err := e.Store.LastMission(ctx, c.Repo.ID, c.Number, store.KindChecks)
	if errors.Is(err, store.ErrNone) || err == nil && !strings.HasPrefix(last.Message, closedBy) {
		return "ignored: no checks mission on this pull request", nil
	}
	if err != nil {
		return "", err
	}
	return e.checkPull(ctx, pullTrigger{
		meta: c.Meta, repo: repoOfMeta(c.Meta),
		number: c.Number, title: last.Title, head: c.HeadSHA, key: "delivery:" + c.DeliveryID, by: webhooks.User{Login: last.Requester, ID: last.RequesterID},
	})
}

// supersede ends what an older head has running and starts on the newer one.
func (e *Engine) supersede(ctx context.Context, m *store.Mission) (next, error) {
	if err := e.clear(ctx, m, "superseded by a newer commit or a re-run"); err != nil {
		return next{}, err
	}
	m.Attempt++
	m.Run = runID(m)
	m.Head, m.Outcome, m.Message = m.NextHead, "", ""
	m.Host, m.ReadyAt = "", time.Time{}
	// The wish is cleared only after the new attempt is saved, so that a crash in between does this again.
	if err := e.Store.Save(ctx, m, e.Now()); err != nil {
		return next{}, err
	}
	return next{step: stepTake}, e.Store.Superseded(ctx, m.ID, m.Head)
}
