package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/mission"
	"github.com/sandpiper-bot/sandpiper/app/places"
	"github.com/sandpiper-bot/sandpiper/app/queue"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/app/sweep"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
	"github.com/sandpiper-bot/sandpiper/sandbox/reaper"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// Options are what the environment does not say.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
	// Supervisor is the command line before STATE ID NAME that starts a supervisor; empty: this program's own.
	Supervisor []string
}

// App is the bot.
type App struct {
	Config *config.Config
	Store  *store.Store
	Log    *slog.Logger

	options   Options
	github    *installation.App
	sandboxes *sandbox.Manager
	audit     *audit.Log
	boundary  *boundary
	stores    *gitstore.Stores
	redactor  *redact.Redactor
	lock      *os.File
	listener  net.Listener
	host      string                         // of the state directory
	ready     atomic.Pointer[mission.Engine] // nil until GitHub has told who we are
	operators *operators
}

// New opens everything that the bot needs and listens, but does no work before Run. Two bots on one state directory would
// take each other's runs for their own, so the second one is refused.
func New(ctx context.Context, c *config.Config, o Options) (_ *App, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := errors.Join(c.NeedGitHub(), CheckSettings(c)); err != nil {
		return nil, err
	}
	a := &App{Config: c, Log: o.Log, options: o, redactor: redact.New()}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	for _, s := range c.Secrets() {
		a.redactor.Add(s)
	}
	if err := os.MkdirAll(c.StateDir, 0o711); err != nil {
		return nil, fmt.Errorf("SANDPIPER_STATE_DIR: %w", err)
	}
	if a.lock, err = lockState(ctx, c.StateDir); err != nil {
		return nil, err
	}
	if a.host, err = hostID(c.StateDir); err != nil {
		return nil, err
	}
	if err = a.openStore(ctx); err != nil {
		return nil, err
	}
	a.audit = audit.New(audit.Options{Chain: a.Store, Dir: AuditDir(c.StateDir), Redact: a.redactor.String, Log: o.Log, Now: o.Now})
	if err = a.openSandboxes(o); err != nil {
		return nil, err
	}
	if a.operators, err = a.newOperators(ctx); err != nil {
		return nil, err
	}
	if a.github, err = installation.New(installation.Config{
		AppID: c.AppID, Key: c.PrivateKey, APIURL: c.GitHubAPIURL, WritePace: c.WritePace, Redactor: a.redactor, Log: o.Log, Clock: o.Now,
		Transport: effects{installation.NewTransport(), a.audit},
		Watch:     a.operators.metrics,
	}); err != nil {
		return nil, err
	}
	a.boundary = newBoundary(&boundary{
		probe: func(ctx context.Context, backend string) probe.Result {
			return probe.Run(ctx, probe.Options{Sandboxes: a.sandboxes, Stores: a.stores, Backend: backend, StateDir: c.StateDir, Now: o.Now})
		},
		record: func(r probe.Result) { _ = a.audit.Append(ctx, ProbeEntry(r)) },
		every:  c.ProbeEvery, file: verdictsFile(c.StateDir), log: o.Log, now: o.Now,
		wake: func() {
			if e := a.ready.Load(); e != nil {
				e.Wake()
			}
		},
	}, c.Backend)
	if a.listener, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, fmt.Errorf("SANDPIPER_LISTEN: %w", err)
	}
	return a, nil
}

func (a *App) openStore(ctx context.Context) (err error) {
	if a.Store, err = store.Open(ctx, a.Config.Database()); err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	return a.Store.Writable(ctx)
}

// Addr is where the bot listens.
func (a *App) Addr() string { return a.listener.Addr().String() }

// Close lets go of what New opened. After Run it is safe to call.
func (a *App) Close() error {
	var errs []error
	listeners := []net.Listener{a.listener}
	if a.operators != nil {
		listeners = append(listeners, a.operators.listener)
	}
	for _, l := range listeners {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if a.Store != nil {
		errs = append(errs, a.Store.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Close())
	}
	return errors.Join(errs...)
}

// drain is how long Run waits for requests and steps after it was asked to stop. Steps that are not done by then are
// found again by the next start.
const drain = 20 * time.Second

// Run serves until ctx ends. Deliveries are taken from the first moment on; missions move once GitHub has told who we are.
func (a *App) Run(ctx context.Context) error {
	handler, err := a.routes()
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler,
		// GitHub gives up after ten seconds; whoever is slower than this is not GitHub.
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 60 * time.Second, WriteTimeout: 60 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
	var work sync.WaitGroup
	work.Go(func() { a.work(ctx) })
	work.Go(func() { a.boundary.run(ctx) })
	work.Go(func() { a.housekeeping(ctx) })
	work.Go(func() { a.serveOperators(ctx) })
	served := make(chan error, 1)
	go func() { served <- server.Serve(a.listener) }()
	a.Log.Info("listening", "address", a.Addr(), "state", a.Config.StateDir)

	select {
	case err = <-served:
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		if err = server.Shutdown(stop); err != nil {
			err = fmt.Errorf("stop serving: %w", err)
		}
	}
	work.Wait()
	return err
}

// work learns who we are and then moves missions. Neither GitHub nor the database has to be there when it begins.
func (a *App) work(ctx context.Context) {
	var slug string
	if a.insist(ctx, "GitHub does not tell who we are; deliveries are stored meanwhile", func() (err error) {
		slug, err = a.whoAmI(ctx)
		return err
	}) != nil {
		return
	}
	var engine *mission.Engine
	if a.insist(ctx, "missions cannot move", func() (err error) {
		engine, err = a.engine(ctx, slug)
		return err
	}) != nil {
		return
	}
	a.ready.Store(engine)
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		sweep.New(sweep.Config{
			App: a.github, Store: a.Store, Labelled: engine.Labelled, Host: a.host, Every: a.Config.SweepEvery, Log: a.Log, Now: a.options.Now,
		}).Run(ctx)
	})
	_ = a.insist(ctx, "missions stopped", func() error { return engine.Run(ctx) })
	sweeping.Wait()
	// Tokens that nobody will use any more are given back; a GitHub that does not answer is not waited for.
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	a.github.Close(stop)
}

// engine puts the missions' machinery together with its queue: what becomes due in a transaction of the store is queued in it.
func (a *App) engine(ctx context.Context, slug string) (*mission.Engine, error) {
	c := a.Config
	name, err := os.Hostname()
	if err != nil {
		name = a.host
	}
	signer, err := promote.LoadSigner(c.SigningKeyFile)
	if err != nil {
		return nil, err
	}
	engine := mission.New(mission.Config{
		Signer: signer,
		Settings: mission.Settings{
			Label: c.Label, Slug: slug, AppID: c.AppID, GitHubURL: c.GitHubURL, StateDir: c.StateDir, Agent: c.Agent, Policy: c.PolicyFile,
			Host: a.host, HostName: name, Models: endpoints(c),
			Places:  places.Limits{Host: c.Workers, Repository: c.PerRepository, Installation: c.PerInstallation},
			Backend: c.Backend, BackendOutsider: c.BackendOutsider,
		},
		Store: a.Store, GitHub: a.github, Sandboxes: a.sandboxes, Git: a.stores,
		Reporter: checks.NewReporter(checks.ReporterOptions{Log: a.Log, Redact: a.post, AppID: c.AppID, Now: a.options.Now}),
		Redact:   a.post, Log: a.Log, Now: a.options.Now, Watch: watcher{a.operators.metrics, a.operators.traces},
		Boundary: a.boundary, Audit: func(ctx context.Context, e audit.Entry) { _ = a.audit.Append(ctx, e) },
	})
	ticks, err := queue.Open(ctx, queue.Options{
		Database: a.Store.Pool(), Postgres: a.Store.Postgres(), Host: a.host, Workers: mostTicks, Log: a.Log, Now: a.options.Now,
	}, engine.Work)
	if err != nil {
		return nil, err
	}
	engine.Queue = ticks
	a.showQueue(ctx, ticks)
	a.Store.Enqueue(func(ctx context.Context, tx *sql.Tx, t store.Tick) error {
		return ticks.Add(ctx, tx, t.Mission, t.Host, t.At)
	})
	return engine, nil
}

// post takes secrets out of what is about to be posted: our own by their values, others' by their looks.
func (a *App) post(text string) string { return gates.Mask(a.redactor.String(text)) }

// mostTicks is how many missions are looked at at once. Places bound what runs; a tick mostly waits.
const mostTicks = 100

// whoAmI asks GitHub for the App's slug.
func (a *App) whoAmI(ctx context.Context) (slug string, err error) {
	self, _, err := a.github.AppClient().Apps.Get(ctx, "")
	if err != nil {
		return "", err
	}
	a.Log.Info("GitHub knows us", "app", self.GetSlug(), "api", a.Config.GitHubAPIURL)
	return self.GetSlug(), nil
}

// insist does something until it goes well, with growing waits between. Its only error is that ctx has ended.
func (a *App) insist(ctx context.Context, failed string, do func() error) error {
	for try := 0; ; try++ {
		err := do()
		if err == nil {
			return nil
		}
		delay := min(time.Second<<min(try, 6), time.Minute)
		a.Log.Error(failed, "error", err, "again in", delay)
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// housekeeping removes what is expired: runs that nobody removed, and old deliveries.
func (a *App) housekeeping(ctx context.Context) {
	ticker := time.NewTicker(10 * time.Minute)
	defer ticker.Stop()
	for {
		report, err := reaper.Reap(ctx, reaper.Options{Manager: a.sandboxes, MaxAge: a.Config.Retention, Now: a.options.Now, Live: a.live, Care: reaper.Idle})
		if err != nil && ctx.Err() == nil {
			a.Log.Error("reaper", "error", err)
		} else if a.operators.metrics.Reaped(len(report.Discarded) + len(report.Removed)); len(report.Discarded)+len(report.Removed) > 0 {
			a.Log.Info("reaper", "discarded", report.Discarded, "removed", report.Removed)
		}
		for _, cared := range report.Stores {
			a.Log.Info("store packed anew", "store", cared.Store, "packs", cared.Packs, "before", cared.Before, "after", cared.After, "pruned", cared.Pruned)
		}
		if swept, err := jail.Sweep(ctx); err != nil && ctx.Err() == nil {
			a.Log.Error("control groups", "error", err)
		} else if len(swept) > 0 {
			a.Log.Info("control groups of killed launchers removed", "groups", swept)
		}
		// GitHub keeps its delivery log for days; what is older than a month cannot come again.
		if _, err := a.Store.Forget(ctx, a.options.Now().AddDate(0, -1, 0)); err != nil && ctx.Err() == nil {
			a.Log.Error("deliveries", "error", err)
		}
		if _, err := a.Store.ForgetEffects(ctx, a.options.Now().AddDate(0, -1, 0)); err != nil && ctx.Err() == nil {
			a.Log.Error("effects", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

var runForm = regexp.MustCompile(`^r-[a-z0-9]+-[0-9]+`)

// live says whether a sandbox belongs to a mission that is not over, so that the reaper leaves it alone.
func (a *App) live(id sandbox.ID) bool {
	run := runForm.FindString(string(id)) // a run's sandboxes for checks, set-up and the base have its id and a word more
	m, err := a.Store.MissionOfRun(context.Background(), run)
	return err == nil && !m.Ended() || err != nil && !errors.Is(err, store.ErrNone) // in doubt it lives
}

func (a *App) routes() (http.Handler, error) {
	hook, err := webhooks.Handler(webhooks.Options{
		Secrets: a.Config.WebhookSecrets, Log: a.Store, Clock: a.options.Now, Logger: a.Log, Self: webhooks.Self{AppID: a.Config.AppID},
		Observe: a.operators.metrics.Received,
		Wake: func() {
			if e := a.ready.Load(); e != nil {
				e.Wake()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/webhook", hook)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := a.unready(r.Context()); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux, nil
}
