package queue

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// world is a queue on a database of its own, and what it was asked to look at.
type world struct {
	t     *testing.T
	store *store.Store
	queue *Queue

	mu     sync.Mutex
	looked []string
	work   Work // what to do then; nil: nothing
	news   chan struct{}
}

func newWorld(t *testing.T, work Work) *world {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "bot.db"))
	must(t, err)
	t.Cleanup(func() { s.Close() })
	w := &world{t: t, store: s, work: work, news: make(chan struct{}, 100)}
	w.queue, err = Open(t.Context(), Options{
		Database: s.Pool(), Host: "here", Workers: 4, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}, w.look)
	must(t, err)
	return w
}

func (w *world) look(ctx context.Context, mission string) (time.Time, error) {
	w.mu.Lock()
	w.looked = append(w.looked, mission)
	w.mu.Unlock()
	w.news <- struct{}{}
	if w.work == nil {
		return time.Time{}, nil
	}
	return w.work(ctx, mission)
}

// run has the queue work until the test ends, or until stop is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.queue.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// looks waits until so many looks were taken, and gives them.
func (w *world) looks(n int) []string {
	w.t.Helper()
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	for {
		w.mu.Lock()
		looked := append([]string{}, w.looked...)
		w.mu.Unlock()
		if len(looked) >= n {
			return looked
		}
		select {
		case <-w.news:
		case <-timer.C:
			w.t.Fatalf("only %q was looked at in a minute", looked)
		}
	}
}

// add queues in a transaction, which is committed or not.
func (w *world) add(mission, host string, at time.Time, commit bool) {
	w.t.Helper()
	tx, err := w.store.Pool().BeginTx(w.t.Context(), nil)
	must(w.t, err)
	defer tx.Rollback()
	must(w.t, w.queue.Add(w.t.Context(), tx, mission, host, at))
	if commit {
		must(w.t, tx.Commit())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnlyWhatIsCommittedIsLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.add("m-rolled-back", "", time.Now(), false)
	w.add("m-kept", "", time.Now(), true)
	w.run()
	if diff := cmp.Diff([]string{"m-kept"}, w.looks(1)); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyTheHostItselfTakesItsMissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(t, w.queue.AddNow(t.Context(), "m-of-another", "there"))
	must(t, w.queue.AddNow(t.Context(), "m-of-us", "here"))
	stop := w.run()
	if diff := cmp.Diff([]string{"m-of-us"}, w.looks(1)); diff != "" {
		t.Error(diff)
	}
	stop()
	if diff := cmp.Diff(map[string]string{"m-of-another": "available", "m-of-us": "completed"}, states(t, w.store.Pool())); diff != "" {
		t.Error(diff)
	}
}

// states are those of the jobs, by mission.
func states(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "select json_extract(args, '$.mission'), state from river_job")
	must(t, err)
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var mission, state string
		must(t, rows.Scan(&mission, &state))
		found[mission] = state
	}
	must(t, rows.Err())
	return found
}

func TestALookIsTakenAgainWhenItWantsThat(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorld(t, func(context.Context, string) (time.Time, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.looked) < 3 {
			return time.Now(), nil
		}
		return time.Time{}, nil
	})
	must(t, w.queue.AddNow(t.Context(), "m-1", ""))
	w.run()
	if diff := cmp.Diff([]string{"m-1", "m-1", "m-1"}, w.looks(3)); diff != "" {
		t.Error(diff)
	}
}

// TestWhatFailsIsNotTriedAgain: the reconciler makes another tick from the tables, with the waits that they hold.
func TestWhatFailsIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, mission string) (time.Time, error) {
		switch mission {
		case "m-fails":
			return time.Time{}, errors.New("the database is gone")
		case "m-panics":
			panic("a defect")
		}
		return time.Time{}, nil
	})
	must(t, w.queue.AddNow(t.Context(), "m-fails", ""))
	must(t, w.queue.AddNow(t.Context(), "m-panics", ""))
	must(t, w.queue.AddNow(t.Context(), "m-works", ""))
	stop := w.run()
	w.looks(3)
	stop()
	if diff := cmp.Diff(map[string]string{"m-fails": "discarded", "m-panics": "discarded", "m-works": "completed"}, states(t, w.store.Pool())); diff != "" {
		t.Error(diff)
	}
}

// TestStopWaitsForWhatIsUnderWay: a tick that has begun ends as it likes, with its context alive.
func TestStopWaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	release, ended := make(chan struct{}), make(chan error, 1)
	w := newWorld(t, func(ctx context.Context, _ string) (time.Time, error) {
		<-release
		ended <- ctx.Err()
		return time.Time{}, nil
	})
	must(t, w.queue.AddNow(t.Context(), "m-1", ""))
	stop := w.run()
	w.looks(1)
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(release)
	<-stopped
	if err := <-ended; err != nil {
		t.Errorf("the context of a tick under way: %v", err)
	}
}

// TestWhatIsDueLaterWaits holds the time of a tick in the job.
func TestWhatIsDueLaterWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.add("m-later", "", time.Now().Add(time.Hour), true)
	w.add("m-now", "", time.Now().Add(-time.Hour), true)
	stop := w.run()
	w.looks(1)
	stop()
	if diff := cmp.Diff(map[string]string{"m-later": "scheduled", "m-now": "completed"}, states(t, w.store.Pool())); diff != "" {
		t.Error(diff)
	}
}
