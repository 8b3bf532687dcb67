package mission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/app/tree"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// reviewed looks at the gate again because somebody has reviewed, or taken a review back. What the event says of it does
// not count: the gate reads everything anew.
func (e *Engine) reviewed(ctx context.Context, c webhooks.ReviewSubmitted) (string, error) {
	m, err := e.missionOfPull(ctx, c.Repo.ID, c.Number)
	if m == nil || err != nil {
		return "ignored: no mission has this pull request", err
	}
	return "mission " + m.ID + ": review gate", e.gate.Set(ctx, m, false)
}

// missionOfPull is the open mission that opened a pull request; nil when there is none.
func (e *Engine) missionOfPull(ctx context.Context, repository int64, pull int) (*store.Mission, error) {
	m, err := e.Store.MissionOfPull(ctx, repository, pull)
	if errors.Is(err, store.ErrNone) || err == nil && m.Ended() {
		return nil, nil
	}
	return m, err
}

// approve records an approval by a comment, for teams that do not use reviews. It names the commit, so that it cannot be of
// something that the person has not seen.
func (e *Engine) approve(ctx context.Context, gh *github.Client, m *store.Mission, c webhooks.Slash) (string, error) {
	if strings.EqualFold(strings.TrimSpace(c.Args), "findings") { // those of the boundary, which a gate holds
		c.Args = "boundary"
		return e.allow(ctx, gh, m, c)
	}
	if m.Ended() || m.Pull == 0 {
		return "There is no open pull request to approve.", nil
	}
	pr, _, err := gh.PullRequests.Get(ctx, m.Owner, m.Name, m.Pull)
	if err != nil {
		return "", fmt.Errorf("pull request %d: %w", m.Pull, err)
	}
	head, err := e.branchHead(ctx, m)
	if err != nil {
		return "", err
	}
	given, _, _ := strings.Cut(strings.ToLower(c.Args), " ")
	switch {
	case pr.GetState() != "open":
		return "The pull request is closed; there is nothing to approve.", nil
	case len(given) < 7 || !strings.HasPrefix(head, given):
		return fmt.Sprintf("Say which commit: `/sandpiper approve %s` approves the head of #%d.", head[:min(12, len(head))], m.Pull), nil
	case c.Author.Login == m.Requester, c.Author.ID != 0 && c.Author.ID == m.RequesterID:
		p, err := policyOf(m)
		if err != nil || !p.Review.Requester {
			return "The approval of the person who asked for the work does not count here. Somebody else with write access can say it.", err
		}
	}
	if err := e.Store.Approve(ctx, m.ID, head, c.Author.Login, e.Now()); err != nil {
		return "", err
	}
	return fmt.Sprintf("Approval of `%s` recorded.", head[:min(12, len(head))]), e.gate.Set(ctx, m, false)
}

// evidence is what the review gate asks a mission for.
type evidence struct{ *Engine }

// Head implements review.Evidence.
func (e evidence) Head(ctx context.Context, m *store.Mission) (string, error) {
	return e.branchHead(ctx, m)
}

// Unsettled implements review.Evidence: an approval of the change as a whole does not say that anybody has looked at what another
// gate found.
func (e evidence) Unsettled(ctx context.Context, m *store.Mission) (names []string, err error) {
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return nil, err
	}
	o, err := offerOf(run)
	for _, held := range o.held(gates.Draft) {
		names = append(names, held.Gate)
	}
	return names, err
}

// Owners implements review.Evidence. It is the text of the file at the base that the change was made for; "" where there is none.
func (e evidence) Owners(ctx context.Context, m *store.Mission) (string, error) {
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return "", err
	}
	o, err := offerOf(run)
	if err != nil {
		return "", err
	}
	base := cmp.Or(o.OwnersAt(), m.Base)
	// A review comes to any of the bots, and the store of the one that worked on the mission may be on another machine.
	if err := e.ensureCommit(ctx, m, base, "+"+base+":refs/sandpiper/fetch/commits/"+base); err != nil {
		return "", err
	}
	files, err := tree.Open(e.Git.Dir(storeKey(m.RepositoryID)), base)
	if err != nil {
		return "", err
	}
	for _, name := range promote.OwnersFiles() {
		if files.Exists(name) {
			text, err := files.Read(name)
			return string(text), err
		}
	}
	return "", nil
}
