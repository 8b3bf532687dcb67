// Package queue carries ticks: jobs of River that say "look at this mission now", in our own transactions.
//
// The tables of app/store are the truth; a tick that is lost costs time and nothing else, since the reconciler makes it
// again. A job does one idempotent piece of work within two minutes, and no agent runs inside one. The package must not
// know what a mission is.
package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"riverqueue.com/riverui"
)

// JobTimeout is how long one tick may take. River takes a job that runs longer for stuck.
const JobTimeout = 2 * time.Minute

// Tick is the job: a look at one mission.
type Tick struct {
	Mission string `json:"mission"`
}

// Kind names the job in River's table.
func (Tick) Kind() string { return "tick" }

// InsertOpts: a tick that fails is made again by the reconciler, not by River's own backoff.
func (Tick) InsertOpts() river.InsertOpts { return river.InsertOpts{MaxAttempts: 1} }

// Work does one tick. again is when the mission is to be looked at next; zero when only an event moves it.
type Work func(ctx context.Context, mission string) (again time.Time, err error)

// Options of Open.
type Options struct {
	Database *sql.DB
	Postgres bool
	Host     string // whose own queue is worked on beside the common one; missions with a sandbox here go there
	Workers  int    // ticks at once
	Log      *slog.Logger
	Now      func() time.Time
}

// Queue is River on our database.
type Queue struct {
	Options
	client *river.Client[*sql.Tx]
	driver riverdriver.Driver[*sql.Tx]
}

// common is the queue of missions that have no sandbox yet: any bot may take them.
const common = river.QueueDefault

// Of is the queue of a host.
func Of(host string) string {
	if host == "" {
		return common
	}
	return "host-" + host
}

// Open brings River's own tables to their newest form and prepares the client. Nothing works before Run.
func Open(ctx context.Context, o Options, work Work) (*Queue, error) {
	q := on(o)
	migrator, err := rivermigrate.New(q.driver, &rivermigrate.Config{Logger: quiet(o.Log)})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, fmt.Errorf("queue: migrate: %w", err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{work: work, now: o.Now})
	q.client, err = river.NewClient(q.driver, &river.Config{
		ID:           o.Host,
		Logger:       quiet(o.Log),
		Queues:       map[string]river.QueueConfig{common: {MaxWorkers: o.Workers}, Of(o.Host): {MaxWorkers: o.Workers}},
		Workers:      workers,
		JobTimeout:   JobTimeout,
		ErrorHandler: &errorHandler{log: o.Log},
		// A tick that its process took to the grave is not waited for: the reconciler makes another.
		RescueStuckJobsAfter:        JobTimeout + time.Minute,
		CompletedJobRetentionPeriod: time.Hour,
		DiscardedJobRetentionPeriod: time.Hour,
		CancelledJobRetentionPeriod: time.Hour,
		FetchCooldown:               50 * time.Millisecond,
		FetchPollInterval:           500 * time.Millisecond,
	})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	return q, nil
}

// OpenToAdd is for a program beside the bot: what it adds the bot works on. River's tables have to be there already.
func OpenToAdd(o Options) (q *Queue, err error) {
	q = on(o)
	if q.client, err = river.NewClient(q.driver, &river.Config{Logger: quiet(o.Log)}); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	return q, nil
}

func on(o Options) *Queue {
	if o.Postgres {
		return &Queue{Options: o, driver: riverdatabasesql.New(o.Database)}
	}
	return &Queue{Options: o, driver: riversqlite.New(o.Database)}
}

// Add has a mission looked at, in the caller's transaction: both or neither.
func (q *Queue) Add(ctx context.Context, tx *sql.Tx, mission, host string, at time.Time) error {
	_, err := q.client.InsertTx(ctx, tx, Tick{Mission: mission}, &river.InsertOpts{Queue: Of(host), ScheduledAt: later(at, q.Now())})
	if err != nil {
		return fmt.Errorf("queue mission %s: %w", mission, err)
	}
	return nil
}

// AddNow is Add in a transaction of its own, for what was lost.
func (q *Queue) AddNow(ctx context.Context, mission, host string) error {
	if _, err := q.client.Insert(ctx, Tick{Mission: mission}, &river.InsertOpts{Queue: Of(host)}); err != nil {
		return fmt.Errorf("queue mission %s: %w", mission, err)
	}
	return nil
}

// later is at, or the zero time, which means now, if that has come.
func later(at, now time.Time) time.Time {
	if !at.After(now) {
		return time.Time{}
	}
	return at
}

// Run works until ctx ends and returns when the ticks under way have ended.
func (q *Queue) Run(ctx context.Context) error {
	// River ends its jobs with the context that it was started with; we let them finish, and bound that.
	if err := q.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("queue: start: %w", err)
	}
	<-ctx.Done()
	soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := q.client.Stop(soft); err == nil {
		return nil
	}
	hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := q.client.StopAndCancel(hard); err != nil {
		return fmt.Errorf("queue: stop: %w", err)
	}
	return nil
}

// UI is River's own page on its jobs. It asks nobody who they are: put a login in front.
func (q *Queue) UI(ctx context.Context, prefix string) (http.Handler, error) {
	endpoints := riverui.NewEndpoints(q.client, nil)
	handler, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: endpoints, Logger: quiet(q.Log), Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("queue: page: %w", err)
	}
	return handler, handler.Start(ctx)
}

type worker struct {
	river.WorkerDefaults[Tick]
	work Work
	now  func() time.Time
}

// Work does a tick and has the job come again when the mission is due again.
func (w *worker) Work(ctx context.Context, job *river.Job[Tick]) error {
	again, err := w.work(ctx, job.Args.Mission)
	if err != nil || again.IsZero() {
		return err
	}
	return river.JobSnooze(max(again.Sub(w.now()), 0))
}

// errorHandler logs what a tick could not log itself; the tables still say that the mission is due.
type errorHandler struct{ log *slog.Logger }

func (h *errorHandler) HandleError(_ context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	if !errors.Is(err, context.Canceled) {
		h.log.Error("tick", "job", job.ID, "args", string(job.EncodedArgs), "error", err)
	}
	return nil
}

func (h *errorHandler) HandlePanic(_ context.Context, job *rivertype.JobRow, panicked any, trace string) *river.ErrorHandlerResult {
	h.log.Error("panic in a tick", "job", job.ID, "args", string(job.EncodedArgs), "panic", fmt.Sprint(panicked), "trace", trace)
	return nil
}

// quiet is the log without River's own informational lines: each job would be one.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(atLeast{log.Handler(), slog.LevelWarn}) }

type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h atLeast) WithAttrs(a []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(a), h.level}
}
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
