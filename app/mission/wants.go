package mission

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// What people, or the end of a pull request, ask of an open mission.
const (
	wantCancel  = "cancel"
	wantGone    = "gone" // its issue, its merge group, or the App's access"
	wantDiscard = "discard"
	wantEnd     = "end"    // its pull request was closed
	wantMerged  = "merged" // its pull request was merged
)

// closedBy begins the message of a mission whose pull request was closed, after which it may be opened again.
const closedBy = "the pull request was closed by "

// obey fulfils a wish. Whatever runs is stopped by the close step, which records it before it goes.
func (e *Engine) obey(ctx context.Context, m *store.Mission) (next, error) {
	if strings.HasPrefix(m.Want, wantSelect) {
		return e.reselect(ctx, m)
	}
	if strings.HasPrefix(m.Want, wantAllow) {
		return e.letPass(ctx, m)
	}
	switch m.Want {
	case wantCancel:
		m.Outcome, m.Message = string(outcome.Cancelled), "cancelled by "+m.WantBy
	case wantGone:
		m.Outcome, m.Message = string(outcome.Cancelled), "what it worked on is gone: deleted, moved, taken out of the merge queue, or out of the App's reach"
	case wantEnd:
		m.Message = closedBy + m.WantBy
	case wantMerged:
		m.Message = fmt.Sprintf("the pull request was merged by %s", m.WantBy)
	case wantDiscard:
		text := "discarded by " + m.WantBy
		if err := e.closePull(ctx, m); err != nil {
			_, final := outcome.Judge(err, *failuresLike(m, err))
			if final == nil {
				return next{}, err
			}
			text += fmt.Sprintf("; pull request #%d could not be closed, so close it there: %s", m.Pull, e.Redact(final.Message))
		}
		m.Outcome, m.Message = string(outcome.Cancelled), text
	default:
		return next{}, fmt.Errorf("want %q of mission %s is not known", m.Want, m.ID)
	}
	if err := e.Store.Save(ctx, m, e.Now()); err != nil {
		return next{}, err
	}
	to := stepClose
	if m.Want == wantCancel { // a round of it; the pull request goes on waiting
		to = afterEnd(m, &outcome.Ended{Outcome: outcome.Cancelled})
	}
	return next{step: to}, e.Store.Wanted(ctx, m.ID)
}

// closePull closes the pull request of a discarded mission. Its branch stays: it may hold commits of people.
func (e *Engine) closePull(ctx context.Context, m *store.Mission) error {
	if m.Kind != store.KindIssue || m.Pull == 0 {
		return nil
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Promote)
	if err != nil {
		return err
	}
	closed := "closed"
	if _, _, err := gh.PullRequests.Edit(ctx, m.Owner, m.Name, m.Pull, &github.PullRequest{State: &closed}); err != nil {
		return fmt.Errorf("pull request %d: %w", m.Pull, err)
	}
	return nil
}
