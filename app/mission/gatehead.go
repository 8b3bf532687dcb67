package mission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
)

// A review gate waits in progress on the head that it is of. When the head moves, or nobody waits for it any more, it is ended there: a
// Check Run that is never completed blocks whatever shows that commit for ever (buttondown/roadmap#2494).

// shownGate is the key of a head that the gate of a mission is shown on, or was about to be.
func shownGate(m *store.Mission, head string) string { return "gate:" + m.ID + ":" + head }

// endGates ends the gates of a mission that still wait, but for the one on the live head, once for each head.
func (e *Engine) endGates(ctx context.Context, m *store.Mission, live, why string) error {
	shown, err := e.Store.Effects(ctx, shownGate(m, ""))
	if err != nil {
		return err
	}
	for _, key := range shown {
		head := strings.TrimPrefix(key, shownGate(m, ""))
		if head == live {
			continue
		}
		// One that is shown again on a head that was left for a while is ended by that head's next successor.
		done := fmt.Sprintf("gateend:%s:%s:%s", m.ID, head, live)
		if _, ended, err := e.Store.Effect(ctx, done); ended || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Checks)
		if err != nil {
			return err
		}
		target := e.target(m)
		target.HeadSHA = head
		err = e.Reporter.EndGate(ctx, gh, target, gateName, why)
		if err != nil && !errors.Is(err, checks.ErrGone) && !errors.Is(err, checks.ErrNoCommit) {
			return err
		}
		if err := e.Store.AddEffect(ctx, done, 0, e.Now()); err != nil {
			return err
		}
	}
	return nil
}
