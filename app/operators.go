package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/mission"
	"github.com/sandpiper-bot/sandpiper/app/ops"
	"github.com/sandpiper-bot/sandpiper/app/queue"
	"github.com/sandpiper-bot/sandpiper/app/sweep"
)

// operators is what stands on the operators' address.
type operators struct {
	listener net.Listener // nil when the default address was taken
	metrics  *ops.Metrics
	traces   *ops.Traces // nil: none are wanted

	mu   sync.Mutex
	page http.Handler // River's; nil until the queue is open
}

// newOperators listens. The default address may be taken by another bot of this machine, which is no reason not to work;
// one that somebody asked for must be had.
func (a *App) newOperators(ctx context.Context) (*operators, error) {
	o := &operators{metrics: ops.NewMetrics(a.Store, sweep.Duty, a.sandboxesByState, a.options.Now)}
	var err error
	if o.traces, err = ops.NewTraces(ctx, version()); err != nil {
		return nil, err
	}
	o.listener, err = net.Listen("tcp", a.Config.OpsListen)
	if err != nil && a.Config.Given("SANDPIPER_OPS_LISTEN") {
		return nil, fmt.Errorf("SANDPIPER_OPS_LISTEN: %w", err)
	}
	if err != nil {
		a.Log.Warn("no metrics: the operators' address cannot be had; set SANDPIPER_OPS_LISTEN", "error", err)
		o.listener = nil
	}
	return o, nil
}

func version() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		return build.Main.Version
	}
	return ""
}

func (a *App) sandboxesByState() map[string]int {
	records, err := a.sandboxes.List()
	if err != nil {
		a.Log.Warn("sandboxes cannot be counted", "error", err)
		return nil
	}
	states := map[string]int{}
	for _, r := range records {
		states[string(r.State)]++
	}
	return states
}

// serveOperators serves until ctx ends.
func (a *App) serveOperators(ctx context.Context) {
	o := a.operators
	defer func() {
		if o.traces == nil {
			return
		}
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := o.traces.Close(stop); err != nil {
			a.Log.Warn("the last traces were not sent", "error", err)
		}
	}()
	if o.listener == nil {
		<-ctx.Done()
		return
	}
	handler := ops.Handler(ops.Options{
		Metrics: o.metrics, Database: a.Store, Sweep: sweep.Duty, Password: a.Config.AdminPassword, Now: a.options.Now,
		Identity: func() string {
			if engine := a.ready.Load(); engine != nil {
				return engine.Slug
			}
			return ""
		},
		Unfit: func() string {
			if a.github.Refused() {
				return keyRefused
			}
			return ""
		},
		Queue: func() http.Handler {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.page
		},
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug)}
	a.Log.Info("operators' page", "ops", o.listener.Addr().String())
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(o.listener); err != nil && ctx.Err() == nil {
		a.Log.Error("operators' page", "error", err)
	}
}

// showQueue puts River's page up, where a password for it is set.
func (a *App) showQueue(ctx context.Context, q *queue.Queue) {
	if a.Config.AdminPassword.IsZero() {
		return
	}
	page, err := q.UI(ctx, "/queue")
	if err != nil {
		a.Log.Error("page of the queue", "error", err)
		return
	}
	a.operators.mu.Lock()
	defer a.operators.mu.Unlock()
	a.operators.page = page
}

// watcher hears of missions, for metrics and traces.
type watcher struct {
	*ops.Metrics
	traces *ops.Traces
}

var _ mission.Watcher = watcher{}

// StepDone implements mission.Watcher.
func (w watcher) StepDone(s mission.StepDone) {
	w.Metrics.StepDone(s)
	if w.traces != nil {
		w.traces.StepDone(s)
	}
}

// keyRefused is said until a call is accepted again: missions that need a token wait, and the sweep tries the key in any case.
const keyRefused = "GitHub does not accept the App's key: see that SANDPIPER_APP_ID and the key belong to one App, that the key was not deleted, and that the clock is right; 'sandpiper doctor' says more"

func (a *App) unready(ctx context.Context) error {
	if err := a.Store.Ping(ctx); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if a.ready.Load() == nil {
		return errors.New("GitHub has not told who we are yet; the log says why")
	}
	if a.github.Refused() {
		return errors.New(keyRefused)
	}
	if why := a.boundary.closed(); why != "" {
		return errors.New(why)
	}
	return nil
}
