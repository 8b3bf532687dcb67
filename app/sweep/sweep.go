// Package sweep finds what webhooks have lost: deliveries that failed, and labels that nobody told the bot of.
//
// GitHub delivers once and keeps a log for about three days; whatever fails is lost unless somebody asks for it again. The
// sweep reads that log and asks again for what failed and is not stored. Because a hook can also be set up wrongly for
// longer than that, the trigger label itself is looked for as well, more seldom. The package must not act on what it
// finds: a delivery comes back through the front door, and a label is handed to a function that it was given.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// Bounds of a round.
const (
	// pageSize and mostPages bound what is read of the delivery log: 30,000 deliveries.
	pageSize, mostPages = 100, 300
	// mostAgain bounds what is asked for again in one round. When more is due the next round comes soon.
	mostAgain = 200
	soon      = 10 * time.Second
	// overlap is how far a short round reaches back before the one before it, for the log is not in strict order.
	overlap = 15 * time.Minute
	// longEvery is how often a round reads the whole log again, for deliveries that failed more than once.
	longEvery = time.Hour
	// labelsEvery is how many periods lie between two looks for labels.
	labelsEvery = 10
	// unsupported is how much longer the period is at a GitHub that has no delivery log.
	unsupported = 20
)

// Duty is the name under which one bot at a time sweeps.
const Duty = "sweep"

// Store knows what was delivered, and who sweeps.
type Store interface {
	Known(ctx context.Context, ids []string) (map[string]bool, error)
	TakeDuty(ctx context.Context, name, host string, now, until time.Time) (bool, error)
	DutyDone(ctx context.Context, name, host, result string, now time.Time) error
}

// App is the App at GitHub.
type App interface {
	AppClient() *github.Client
	Installations(ctx context.Context) ([]int64, error)
	Survey(ctx context.Context, installation int64, visit func(context.Context, *github.Client, installation.Repo) error) error
}

// Config of a Sweeper. All of it is required.
type Config struct {
	App   App
	Store Store
	// Labelled starts what the trigger label in a repository asks for and nobody has begun, and says how many that were.
	Labelled func(context.Context, *github.Client, installation.Repo) (int, error)
	Host     string        // whose duty it is, among the bots of a database
	Every    time.Duration // between two rounds
	Log      *slog.Logger
	Now      func() time.Time
}

// Sweeper sweeps. It is used by one goroutine.
type Sweeper struct {
	Config
	read   time.Time // when the last round began that read the log to where it had to
	long   time.Time // the same of the last one that read all of it
	labels time.Time // when labels were last looked for
	told   bool      // that there is no log
}

// New makes a Sweeper.
func New(c Config) *Sweeper { return &Sweeper{Config: c} }

// Run sweeps at once and then again and again until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(s.turn(ctx))
	}
}

// turn is one round, if it is this bot's to make, and says how long to wait for the next one.
func (s *Sweeper) turn(ctx context.Context) time.Duration {
	now := s.Now()
	mine, err := s.Store.TakeDuty(ctx, Duty, s.Host, now, now.Add(2*s.Every+time.Minute))
	if err != nil || !mine {
		if err != nil && ctx.Err() == nil {
			s.Log.Error("sweep", "error", err)
		}
		s.read, s.long = time.Time{}, time.Time{} // another reads on; whoever takes over begins anew
		return s.Every
	}
	result, wait, err := s.round(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		s.Log.Warn("sweep", "error", err)
		result = "failed: " + err.Error()
	}
	if err := s.Store.DutyDone(ctx, Duty, s.Host, result, s.Now()); err != nil {
		s.Log.Error("sweep", "error", err)
	}
	return wait
}

// round reads the log and, now and then, the labels.
func (s *Sweeper) round(ctx context.Context) (result string, wait time.Duration, err error) {
	wait = s.Every
	result, again, err := s.deliveries(ctx)
	switch {
	case errors.Is(err, installation.ErrUnsupported):
		if !s.told {
			s.told = true
			s.Log.Warn("this GitHub has no log of deliveries; what its webhooks lose is found by the label only", "error", err)
		}
		result, err, wait = "no log of deliveries", nil, unsupported*s.Every
	case err == nil && again >= mostAgain:
		wait = min(soon, s.Every)
	}
	if now := s.Now(); s.labels.IsZero() || now.Sub(s.labels) >= labelsEvery*s.Every {
		started, labelErr := s.labelled(ctx)
		s.labels = now
		result += fmt.Sprintf(", %d labels found", started)
		err = errors.Join(err, labelErr)
	}
	var limited *installation.ErrLimited
	if errors.As(err, &limited) {
		wait = max(wait, limited.RetryAfter)
	}
	return result, wait, err
}

// deliveries asks again for what failed, and says how often it did.
func (s *Sweeper) deliveries(ctx context.Context) (result string, again int, err error) {
	began := s.Now()
	since := began.Add(-webhooks.SweepReach)
	long := s.long.IsZero() || began.Sub(s.long) >= longEvery
	if !long {
		since = s.read.Add(-overlap)
	}
	log, err := s.log(ctx, since)
	if err != nil {
		return "", 0, err
	}
	failed := webhooks.Failed(log, began)
	ids := make([]string, len(failed))
	for i, a := range failed {
		ids[i] = a.GUID
	}
	known, err := s.Store.Known(ctx, ids)
	if err != nil {
		return "", 0, err
	}
	failed = slices.DeleteFunc(failed, func(a webhooks.Attempt) bool { return known[a.GUID] })
	if again, err = s.askAgain(ctx, failed[:min(len(failed), mostAgain)]); err != nil {
		return "", again, err
	}
	if again < mostAgain { // else the next round has to reach as far back
		s.read = began
		if long {
			s.long = began
		}
	}
	return fmt.Sprintf("%d deliveries read, %d asked for again", len(log), again), again, nil
}

// log reads the delivery log down to a time.
func (s *Sweeper) log(ctx context.Context, since time.Time) (log []webhooks.Attempt, err error) {
	page := &github.ListCursorOptions{PerPage: pageSize}
	for range mostPages {
		lines, response, err := s.App.AppClient().Apps.ListHookDeliveries(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("log of deliveries: %w", err)
		}
		for _, d := range lines {
			at := d.GetDeliveredAt().Time
			if at.Before(since) {
				return log, nil
			}
			log = append(log, webhooks.Attempt{ID: d.GetID(), GUID: d.GetGUID(), At: at, Status: d.GetStatusCode()})
		}
		if response.Cursor == "" {
			return log, nil
		}
		page.Cursor = response.Cursor
	}
	s.Log.Warn("the log of deliveries is longer than a sweep reads", "read", len(log))
	return log, nil
}

// askAgain asks for one delivery after the other, and says for how many it did. One that GitHub does not give again keeps no younger
// one from coming, unless it takes no calls at all.
func (s *Sweeper) askAgain(ctx context.Context, failed []webhooks.Attempt) (again int, err error) {
	var errs []error
	for _, a := range failed {
		err := s.redeliver(ctx, a)
		if err == nil {
			again++
			continue
		}
		errs = append(errs, err)
		if errors.As(err, new(*installation.ErrLimited)) || errors.Is(err, installation.ErrUnreachable) || errors.Is(err, installation.ErrUnauthorized) || ctx.Err() != nil {
			break
		}
	}
	return again, errors.Join(errs...)
}

func (s *Sweeper) redeliver(ctx context.Context, a webhooks.Attempt) error {
	_, response, err := s.App.AppClient().Apps.RedeliverHookDelivery(ctx, a.ID)
	var accepted *github.AcceptedError // 202 is what success is here; go-github takes it for an error
	if err != nil && !errors.As(err, &accepted) {
		if response != nil && response.StatusCode == 404 {
			return nil // it has left the log meanwhile
		}
		return fmt.Errorf("ask again for delivery %s: %w", a.GUID, err)
	}
	s.Log.Info("delivery asked for again", "delivery", a.GUID, "failed", a.At, "status", a.Status)
	return nil
}

// labelled looks for the trigger label in every repository.
func (s *Sweeper) labelled(ctx context.Context) (started int, err error) {
	ids, err := s.App.Installations(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, id := range ids {
		err := s.App.Survey(ctx, id, func(ctx context.Context, client *github.Client, repo installation.Repo) error {
			n, err := s.Labelled(ctx, client, repo)
			started += n
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("labels of installation %d: %w", id, err))
		}
	}
	return started, errors.Join(errs...)
}
