package review

import (
	"context"
	"errors"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
)

// A gate waits in progress on the head that it is of. When the head moves, or nobody waits for it any more, it is ended there: a
// Check Run that is never completed blocks whatever shows that commit for ever (buttondown/roadmap#2494).

// shownOn is the key of a head on which the gate of a mission may wait.
func shownOn(m *store.Mission, head string) string { return "gate:" + m.ID + ":" + head }

// End ends the gates of a mission that still wait, but for the one on the live head. One is forgotten when it has ended, and known again
// when it is shown again: a person may push back and forth.
func (g *Gate) End(ctx context.Context, m *store.Mission, live, why string) error {
	shown, err := g.Store.Effects(ctx, shownOn(m, ""))
	if err != nil {
		return err
	}
	for _, key := range shown {
		head := strings.TrimPrefix(key, shownOn(m, ""))
		if head == live {
			continue
		}
		gh, err := g.GitHub.Client(ctx, repoOf(m), installation.Checks)
		if err != nil {
			return err
		}
		err = g.Reporter.EndGate(ctx, gh, checks.Target{Owner: m.Owner, Repo: m.Name, HeadSHA: head}, Name, why)
		if err != nil && !errors.Is(err, checks.ErrGone) && !errors.Is(err, checks.ErrNoCommit) {
			return err
		}
		if err := g.Store.DropEffect(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
