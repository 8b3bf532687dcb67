package mission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// promote offers what the run made: branch, manifest, pull request. Everything in the request is recorded, so that it is the
// same when this step runs twice.
func (e *Engine) promote(ctx context.Context, m *store.Mission) (next, error) {
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return next{}, err
	}
	if err := e.stillWanted(ctx, m); err != nil {
		return next{}, err
	}
	if isFork(m) {
		return e.suggest(ctx, m, run)
	}
	d, request, err := e.publication(ctx, m, run)
	if err != nil {
		return next{}, err
	}
	result, err := promote.Publish(ctx, d, request)
	var closed *promote.ErrClosed
	if errors.As(err, &closed) {
		return next{}, outcome.End(outcome.Cancelled, err, "%v", closed)
	}
	if more := (*promote.ErrMore)(nil); errors.As(err, &more) {
		return next{step: stepPromote, found: more.Error()}, nil
	}
	if err != nil {
		return next{}, fmt.Errorf("promote %s: %w", m.Run, err)
	}
	m.Pull, m.PullURL, m.Branch, m.Head = result.PR.GetNumber(), result.PR.GetHTMLURL(), result.Branch, result.Head
	m.Outcome, m.Message = string(outcome.Changed), fmt.Sprintf("pull request #%d", m.Pull)
	if result.PR.GetDraft() {
		m.Message += ", a draft: it says what has to be done first"
	}
	digest := result.Manifest.Digest()
	if err := e.Store.SavePromotion(ctx, store.Promotion{
		Run: m.Run, Mission: m.ID, Commit: result.Head, Branch: result.Branch, Pull: m.Pull,
		Manifest: string(result.Manifest.Canonical()), Digest: digest, CreatedAt: e.Now(),
	}); err != nil {
		return next{}, err
	}
	return next{step: stepReport, found: fmt.Sprintf("pull request #%d, %s, head %.7s, manifest %.19s…", m.Pull, m.Branch, m.Head, digest)}, nil
}

// readAgain is the age after which what was read of an issue may no longer be so. A short mission does not pay a call for it.
const readAgain = 10 * time.Second

// stillWanted looks whether the issue is there and open, once more before something is made of it: the delivery that tells of its
// end may be lost. Once there is a pull request, that decides.
func (e *Engine) stillWanted(ctx context.Context, m *store.Mission) error {
	if m.Pull > 0 || e.Now().Sub(m.CreatedAt) < readAgain {
		return nil
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	issue, _, err := gh.Issues.Get(ctx, m.Owner, m.Name, m.Number)
	switch {
	case err != nil:
		return fmt.Errorf("issue %d: %w", m.Number, err)
	case issue.GetNumber() != m.Number: // GitHub has led on to where it is now
		return outcome.End(outcome.BlockedByHost, nil, "the issue has been transferred; put the label on where it is now")
	case issue.GetState() == "closed":
		return outcome.End(outcome.Cancelled, nil, "the issue has been closed")
	}
	return nil
}
