package mission

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// suggest offers what a run made of a fork's pull request as a review of that, and is the end of the mission: what becomes of a
// suggestion is seen there.
func (e *Engine) suggest(ctx context.Context, m *store.Mission, run *store.Run) (next, error) {
	d, request, err := e.publication(ctx, m, run)
	if err != nil {
		return next{}, err
	}
	made, err := promote.PostReview(ctx, d, request)
	switch {
	case errors.As(err, new(*promote.ErrClosed)):
		return next{}, outcome.End(outcome.Cancelled, err, "the pull request has been closed")
	case errors.As(err, new(*promote.ErrHeadMoved)):
		return next{}, outcome.End(outcome.BlockedByRule, err, "%s: %v. Nothing was suggested on what nobody has looked at; what this run made is kept, where the bot runs: `sandpiper sandbox recover %s --to DIRECTORY`",
			outcome.BranchMoved, err, m.Run)
	case err != nil:
		return next{}, fmt.Errorf("suggest %s: %w", m.Run, err)
	}
	m.Outcome, m.Message, m.PullURL = string(outcome.Changed), "it is a review of this pull request, with "+suggestions(made.Suggestions), made.URL
	return next{step: stepClose, found: m.Message}, nil
}

func suggestions(n int) string {
	switch n {
	case 0:
		return "a patch"
	case 1:
		return "1 suggestion"
	}
	return fmt.Sprintf("%d suggestions", n)
}

// publication is what everything that leaves the bot is made of.
func (e *Engine) publication(ctx context.Context, m *store.Mission, run *store.Run) (d promote.Deps, request promote.Request, err error) {
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Promote)
	if err != nil {
		return d, request, err
	}
	bot, err := e.bot(ctx, gh)
	if err != nil {
		return d, request, err
	}
	if request, err = e.request(ctx, m, run, bot); err != nil {
		return d, request, err
	}
	request.Record, err = e.recordOf(ctx, m, run)
	return promote.Deps{
		GitHub: gh, Sandboxes: e.Sandboxes, Signer: e.Signer, Redact: e.Redact, Log: e.Log,
		Repository: promote.Stored{Stores: e.Git, Remote: e.remote(m, installation.Promote)},
	}, request, err
}
