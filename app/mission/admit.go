package mission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/places"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// A look at who may begin is taken when something has changed, and otherwise every scheduleEvery: another bot's places are
// free without a word.
const scheduleEvery = time.Second

// admit waits for a place. It costs nothing while it waits: schedule wakes it, when it may begin or has something to say.
func (e *Engine) admit(ctx context.Context, m *store.Mission) (next, error) {
	if m.ReadyAt.IsZero() {
		m.ReadyAt = e.Now()
		return next{step: stepQueue}, nil
	}
	if m.Host == "" {
		begun, err := e.schedule(ctx, m.ID)
		if err != nil {
			return next{}, err
		}
		if slices.Contains(begun, m.ID) {
			m.Host = e.Host
		}
	}
	if m.Host != "" {
		m.Message = ""
		return next{step: stepCreate, found: "waited " + e.Now().Sub(m.ReadyAt).Round(time.Millisecond).String()}, nil
	}
	if m.Position > 0 {
		m.Message = before(m.Position - 1)
		if err := e.tell(ctx, m); err != nil {
			e.Log.Warn("status comment", "mission", m.ID, "error", err)
		}
	}
	return next{step: stepQueue, idle: true}, nil
}

func before(ahead int) string {
	switch ahead {
	case 0:
		return "next in the queue"
	case 1:
		return "1 mission is before it in the queue"
	}
	return fmt.Sprintf("%d missions are before it in the queue", ahead)
}

// reschedule has scheduleAll look at once.
func (e *Engine) reschedule() {
	select {
	case e.changed <- struct{}{}:
	default: // it has been told already
	}
}

// scheduleAll gives places away until ctx ends.
func (e *Engine) scheduleAll(ctx context.Context) {
	e.every(ctx, scheduleEvery, e.changed, "schedule", func(ctx context.Context) error {
		_, err := e.schedule(ctx, "")
		return err
	})
}

// schedule begins those for whom there is a place on this machine. self is the mission whose step asks, if one does; it does not
// look through the others when the machine is full, since nothing follows from it then.
func (e *Engine) schedule(ctx context.Context, self string) (begun []string, err error) {
	waiting, here, err := e.Store.Waiting(ctx, e.Host)
	if err != nil || waiting == 0 || self != "" && here >= e.Places.Host {
		return nil, err
	}
	now := e.Now()
	return e.Store.Schedule(ctx, e.Host, self, now, func(all []store.Place) store.Plan { return places.Plan(all, e.Places, e.Host, self, now) })
}

// mostHosts is how many machines a mission may lose in a row before it ends.
const mostHosts = 3

// lose records that a run has lost its machine, and says how many runs of the mission in a row have: rounds that came to an end, and heads
// that were checked, are attempts as well.
func (e *Engine) lose(ctx context.Context, m *store.Mission) (inRow int, err error) {
	key := func(run string) string { return "lost:" + m.ID + ":" + run }
	if err := e.Store.AddEffect(ctx, key(m.Run), 0, e.Now()); err != nil {
		return 0, err
	}
	for attempt := m.Attempt; attempt > 0; attempt-- {
		_, lost, err := e.Store.Effect(ctx, key(store.RunID(m.ID, attempt)))
		if !lost || err != nil {
			return inRow, err
		}
		inRow++
	}
	return inRow, nil
}

// strand moves a mission on whose machine is gone, with the sandbox that was there. What reached GitHub is found there;
// everything else is done again, from the same base.
func (e *Engine) strand(ctx context.Context, m *store.Mission) (err error) {
	worker := fmt.Sprintf("%s/%d", e.Host, e.ticks.Add(1))
	m, err = e.Store.Lease(ctx, m.ID, worker, e.Now(), e.Now().Add(leaseFor))
	if err != nil || m.Ended() {
		return err
	}
	defer func() { err = errors.Join(err, e.Store.Unlease(context.WithoutCancel(ctx), m.ID, worker)) }()
	if m.Host == "" {
		return nil // another bot was quicker
	}
	e.Log.Warn("the machine of a mission is gone", "mission", m.ID, "run", m.Run, "host", m.Host, "step", m.Step)
	m.Host = ""
	if m.Step == stepWaiting || m.Step == stepClose || m.Step == stepArchive || m.Step == stepReport {
		return e.Store.Save(ctx, m, e.Now()) // nothing of it is needed any more
	}
	if found, err := e.findPromoted(ctx, m); err != nil || found {
		return err
	}
	lost, err := e.lose(ctx, m)
	if err != nil {
		return err
	}
	if lost >= mostHosts {
		m.Outcome, m.Message = string(outcome.Infrastructure), fmt.Sprintf("the machines that worked on it were lost %d times in a row", lost)
		m.Step = stepClose
	} else {
		m.Attempt++
		m.Run = runID(m)
		m.Message = "the machine that worked on it is gone; it starts again from the same base"
		m.Step, m.ReadyAt = stepQueue, time.Time{}
	}
	m.DueAt, m.Failures, m.Defects, m.Trouble = e.Now(), 0, 0, ""
	if err := e.Store.Save(ctx, m, e.Now()); err != nil {
		return err
	}
	return e.Queue.AddNow(ctx, m.ID, "")
}

// findPromoted looks whether the lost machine had opened the pull request, and goes on from there.
func (e *Engine) findPromoted(ctx context.Context, m *store.Mission) (bool, error) {
	if m.Step != stepPromote {
		return false, nil
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Promote)
	if err != nil {
		return false, err
	}
	pulls, _, err := gh.PullRequests.List(ctx, m.Owner, m.Name, nil) // the newest open ones
	if err != nil {
		return false, fmt.Errorf("pull requests of %s/%s: %w", m.Owner, m.Name, err)
	}
	i := slices.IndexFunc(pulls, func(pr *github.PullRequest) bool { return e.promotedFrom(m, pr) })
	if i < 0 {
		return false, nil
	}
	pr := pulls[i]
	m.Pull, m.PullURL, m.Branch, m.Head = pr.GetNumber(), pr.GetHTMLURL(), pr.GetHead().GetRef(), pr.GetHead().GetSHA()
	m.Outcome, m.Message = string(outcome.Changed), fmt.Sprintf("pull request #%d", m.Pull)
	m.Step, m.DueAt = stepReport, e.Now()
	if err := e.Store.Save(ctx, m, e.Now()); err != nil {
		return false, err
	}
	return true, e.Queue.AddNow(ctx, m.ID, "")
}

// promotedFrom says whether a pull request is what the bot itself has opened for the run of a mission. The marker alone does not tell:
// its ids stand in the status comment, and anybody can copy them into a pull request, also from a fork.
func (e *Engine) promotedFrom(m *store.Mission, pr *github.PullRequest) bool {
	mark, ok := promote.ParseMarker(pr.GetBody())
	return ok && mark.Mission == m.ID && mark.Run == m.Run && pr.GetUser().GetLogin() == e.login() &&
		pr.GetHead().GetRepo().GetID() == m.RepositoryID && strings.HasPrefix(pr.GetHead().GetRef(), promote.BranchRoot+"/")
}
