package mission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// Places bounds how many missions have a sandbox at the same time.
type Places struct {
	Host         int // on this machine
	Repository   int // of one repository, on all machines
	Installation int // of one installation, on all machines
}

// admitEvery is how often a waiting mission asks again.
const admitEvery = time.Second

// admit waits for a place. The order is fair: whoever has the fewest sandboxes is next, then who has waited longest, so that
// a noisy installation or repository does not starve the others.
func (e *Engine) admit(ctx context.Context, m *store.Mission) (next, error) {
	if m.ReadyAt.IsZero() {
		m.ReadyAt = e.Now()
		return next{step: stepQueue}, nil
	}
	var ahead int
	admitted, err := e.Store.Admit(ctx, m.ID, e.Host, func(all []store.Place) (yes bool) {
		yes, ahead = e.mayBegin(m.ID, all)
		return yes
	})
	if err != nil {
		return next{}, err
	}
	if admitted {
		m.Host, m.Message = e.Host, ""
		return next{step: stepCreate, found: "waited " + e.Now().Sub(m.ReadyAt).Round(time.Millisecond).String()}, nil
	}
	// Each new position would be an edit of the comment: the near ones are told, of the far ones every tenth.
	if text := position(ahead); text != m.Message && (m.Message == "" || ahead < 3 || ahead%10 == 0) {
		m.Message = text
		if err := e.tell(ctx, m); err != nil {
			e.Log.Warn("status comment", "mission", m.ID, "error", err)
		}
	}
	return next{step: stepQueue, after: admitEvery}, nil
}

func position(ahead int) string {
	switch ahead {
	case 0:
		return "next in the queue"
	case 1:
		return "1 mission is before it in the queue"
	}
	return fmt.Sprintf("%d missions are before it in the queue", ahead)
}

// mayBegin says whether a waiting mission is among those that there is a place for now, and how many wait before it.
func (e *Engine) mayBegin(id string, all []store.Place) (yes bool, ahead int) {
	here := 0
	repositories, installations := map[int64]int{}, map[int64]int{}
	var waiting []store.Place
	for _, p := range all {
		switch {
		case p.Step == stepQueue && !p.ReadyAt.IsZero():
			waiting = append(waiting, p)
		case p.Host != "" && p.Step != stepWaiting:
			repositories[p.RepositoryID]++
			installations[p.InstallationID]++
			if p.Host == e.Host {
				here++
			}
		}
	}
	for len(waiting) > 0 {
		slices.SortFunc(waiting, func(a, b store.Place) int {
			return cmp.Or(
				cmp.Compare(installations[a.InstallationID], installations[b.InstallationID]),
				cmp.Compare(repositories[a.RepositoryID], repositories[b.RepositoryID]),
				a.ReadyAt.Compare(b.ReadyAt), strings.Compare(a.ID, b.ID))
		})
		p := waiting[0]
		waiting = waiting[1:]
		fits := here < e.Places.Host && repositories[p.RepositoryID] < e.Places.Repository && installations[p.InstallationID] < e.Places.Installation
		if p.ID == id {
			return fits, ahead
		}
		ahead++
		if fits {
			here++
			repositories[p.RepositoryID]++
			installations[p.InstallationID]++
		}
	}
	return false, ahead
}

// mostHosts is how many machines a mission may lose before it ends.
const mostHosts = 3

// strand moves a mission on whose machine is gone, with the sandbox that was there. What reached GitHub is found there;
// everything else is done again, from the same base.
func (e *Engine) strand(ctx context.Context, m *store.Mission) error {
	worker := fmt.Sprintf("%s/%d", e.Host, e.ticks.Add(1))
	m, err := e.Store.Lease(ctx, m.ID, worker, e.Now(), e.Now().Add(leaseFor))
	if err != nil || m.Ended() || m.Host == "" {
		return err
	}
	defer e.Store.Unlease(context.WithoutCancel(ctx), m.ID, worker)
	e.Log.Warn("the machine of a mission is gone", "mission", m.ID, "run", m.Run, "host", m.Host, "step", m.Step)
	m.Host = ""
	if m.Step == stepWaiting || m.Step == stepClose || m.Step == stepArchive || m.Step == stepReport {
		return e.Store.Save(ctx, m, e.Now()) // nothing of it is needed any more
	}
	if found, err := e.findPromoted(ctx, m); err != nil || found {
		return err
	}
	if m.Attempt >= mostHosts {
		m.Outcome, m.Message = string(Infrastructure), fmt.Sprintf("the machines that worked on it were lost %d times", m.Attempt)
		m.Step = stepClose
	} else {
		m.Attempt++
		m.Run = runID(m)
		m.Message = "the machine that worked on it is gone; it starts again from the same base"
		m.Step, m.ReadyAt = stepQueue, time.Time{}
	}
	m.DueAt, m.Failures = e.Now(), 0
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
	for _, pr := range pulls {
		if mark, ok := promote.ParseMarker(pr.GetBody()); ok && mark.Mission == m.ID && mark.Run == m.Run {
			m.Pull, m.PullURL, m.Branch, m.Head = pr.GetNumber(), pr.GetHTMLURL(), pr.GetHead().GetRef(), pr.GetHead().GetSHA()
			m.Outcome, m.Message = string(Changed), fmt.Sprintf("pull request #%d", m.Pull)
			m.Step, m.DueAt = stepReport, e.Now()
			if err := e.Store.Save(ctx, m, e.Now()); err != nil {
				return false, err
			}
			return true, e.Queue.AddNow(ctx, m.ID, "")
		}
	}
	return false, nil
}
