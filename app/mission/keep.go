package mission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// keepFor is how long the button of a check keeps the files that it ran on; without it they go a month after the run.
const keepFor = 90 * 24 * time.Hour

// keepSandbox obeys the button that keeps what a check ran on, and says on the pull request how to get at it. The sandbox itself may be
// gone by now: all its files are on record.
func (e *Engine) keepSandbox(ctx context.Context, gh *github.Client, m *store.Mission, key checks.ExternalID, c webhooks.CheckAction) (string, error) {
	id, err := e.checkedIn(ctx, m, key.Run)
	if err != nil {
		return "", err
	}
	number := m.Number
	if m.Pull != 0 {
		number = m.Pull
	}
	until := e.Now().Add(keepFor)
	say := fmt.Sprintf("The files that the check %s ran on are kept until %s, as %s asked. Where the bot runs: `sandpiper sandbox recover %s --to DIRECTORY`.",
		key.Check, until.UTC().Format(time.DateOnly), c.Sender.Login, id)
	err = e.Sandboxes.Keep(ctx, id, until, "button of the check "+key.Check+", pressed by "+c.Sender.Login)
	var elsewhere *sandbox.ErrState
	if errors.Is(err, sandbox.ErrUnknown) || errors.As(err, &elsewhere) {
		say = fmt.Sprintf("The files that the check %s ran on cannot be kept: the machine which heard of it does not have them, or not any more.", key.Check)
	} else if err != nil {
		return "", err
	}
	return "mission " + m.ID + ": " + say, e.say.Once(ctx, gh, repoOf(m), number, "keep:"+c.DeliveryID, say)
}

// checkedIn is the sandbox that the checks of a run were run in.
func (e *Engine) checkedIn(ctx context.Context, m *store.Mission, run string) (sandbox.ID, error) {
	if m.Kind != store.KindIssue {
		return sandbox.ID(run), nil
	}
	r, err := e.Store.Run(ctx, run)
	if errors.Is(err, store.ErrNone) {
		return sandbox.ID(run), nil
	}
	if err != nil {
		return "", err
	}
	o, err := offerOf(r)
	return checksSandbox(run, o), err
}
