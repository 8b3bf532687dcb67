package mission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// GitHub is the App as this package uses it: clients and git credentials for one repository and one purpose.
type GitHub interface {
	Client(context.Context, installation.Repo, installation.Purpose) (*github.Client, error)
	GitCredentials(installation.Repo, installation.Purpose) git.Credentials
	Release(context.Context, installation.Repo)
}

// Settings are the choices of whoever runs the bot.
type Settings struct {
	Label     string // the trigger label, such as sandpiper; compared without case
	Slug      string // of the App at GitHub: its login is <slug>[bot]
	AppID     int64
	GitHubURL string // where people and git find repositories, without a slash at the end
	StateDir  string
	Agent     string // for repositories whose policy names none: a profile, a command, or an executable file of this machine
	Policy    string // a policy file that is used instead of every repository's own; empty: theirs
	Workers   int    // missions that are worked on at once
}

// Config is what an Engine is made of.
type Config struct {
	Settings
	Store     *store.Store
	GitHub    GitHub
	Sandboxes *sandbox.Manager
	Git       *gitstore.Stores
	Reporter  *checks.Reporter
	Redact    func(string) string // everything that is posted goes through it
	Log       *slog.Logger
	Now       func() time.Time
}

// Engine moves missions on.
type Engine struct {
	Config
	wake  chan struct{}
	botID atomic.Int64 // of our account; 0: not asked yet

	mu      sync.Mutex
	ticking map[string]context.CancelCauseFunc // by mission
	lanes   map[string]*lane                   // by issue
}

// New makes an engine. Nothing runs before Run.
func New(c Config) *Engine {
	return &Engine{Config: c, wake: make(chan struct{}, 1), ticking: map[string]context.CancelCauseFunc{}, lanes: map[string]*lane{}}
}

// step is one piece of a mission's work. It returns what comes next; an error is judged by its class.
type step func(*Engine, context.Context, *store.Mission) (next, error)

// next is the step to go on with, at once or after a wait.
type next struct {
	step  string
	after time.Duration
	idle  bool   // only an event goes on
	found string // what the step found, on one line, for the log
}

// The steps.
const (
	stepTake    = "take"
	stepCreate  = "create"
	stepExecute = "execute"
	stepInspect = "inspect"
	stepVerify  = "verify"
	stepPromote = "promote"
	stepReport  = "report"
	stepArchive = "archive"
	stepClose   = "close" // as archive, but nothing is waited for after it
	stepWaiting = "waiting"
	stepEnded   = "ended"
)

var steps = map[store.Kind]map[string]step{
	store.KindIssue: {
		stepTake:    (*Engine).takeIssue,
		stepCreate:  (*Engine).createForIssue,
		stepExecute: (*Engine).execute,
		stepInspect: (*Engine).inspect,
		stepVerify:  (*Engine).verify,
		stepPromote: (*Engine).promote,
		stepReport:  (*Engine).report,
		stepArchive: (*Engine).archive,
		stepClose:   (*Engine).close,
		stepWaiting: (*Engine).waiting,
	},
	store.KindChecks: {
		stepTake:    (*Engine).takePull,
		stepCreate:  (*Engine).createForPull,
		stepVerify:  (*Engine).verifyPull,
		stepArchive: (*Engine).archive,
		stepClose:   (*Engine).close,
		stepWaiting: (*Engine).waiting,
	},
}

// errInterrupted ends a tick because a person asked for something meanwhile; it is nobody's failure.
var errInterrupted = errors.New("interrupted by a command")

// Tick moves a mission on until it has to wait for something. Each step is saved before the next one begins.
func (e *Engine) Tick(ctx context.Context, id string) error {
	for ctx.Err() == nil {
		m, err := e.Store.Mission(ctx, id)
		if err != nil {
			return err
		}
		if m.Ended() || m.DueAt.IsZero() || m.DueAt.After(e.Now()) {
			return nil
		}
		if err := e.once(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// once does one step and saves what became of it. Its own errors are those of the database.
func (e *Engine) once(ctx context.Context, m *store.Mission) error {
	log := e.Log.With("mission", m.ID, "issue", fmt.Sprintf("%s/%s#%d", m.Owner, m.Name, m.Number), "run", m.Run)
	began := e.Now()
	name := m.Step
	to, err := e.work(ctx, m)
	// What the step did has to be saved even if the program is asked to stop now.
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		return e.failed(ctx, log.With("step", name), m, err)
	}
	m.Failures = 0
	m.Step = to.step
	m.DueAt = e.Now().Add(to.after)
	if to.idle {
		m.DueAt = time.Time{}
	}
	if to.step == stepEnded {
		m.EndedAt = e.Now()
		m.DueAt = time.Time{}
	}
	if err := e.Store.Save(ctx, m, e.Now()); err != nil {
		return err
	}
	if name != to.step {
		log.Info("step done", "step", name, "next", to.step, "found", to.found, "took", e.Now().Sub(began), "outcome", m.Outcome, "pull", m.Pull, "head", m.Head)
	}
	return nil
}

// work obeys what a person asked for, takes up a newer head, or does the next step.
func (e *Engine) work(ctx context.Context, m *store.Mission) (next, error) {
	if m.Want != "" {
		return e.obey(ctx, m)
	}
	if m.NextHead != "" && m.Step != stepTake {
		return e.supersede(ctx, m)
	}
	do := steps[m.Kind][m.Step]
	if do == nil {
		return next{}, end(Infrastructure, nil, "step %q is not known to this version", m.Step)
	}
	return do(e, ctx, m)
}

// failed decides what becomes of a mission whose step ended in an error.
func (e *Engine) failed(ctx context.Context, log *slog.Logger, m *store.Mission, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted) {
		return nil // shutting down, or a person's wish: the step is found again as it is
	}
	retry, final := judge(err, m.Failures)
	m.Failures++
	if final == nil {
		log.Warn("step failed, will be tried again", "error", err, "in", retry, "failures", m.Failures)
		m.DueAt = e.Now().Add(retry)
		return e.Store.Save(ctx, m, e.Now())
	}
	log.Warn("step ended the work", "outcome", final.outcome, "message", final.message, "error", err)
	if m.Step == stepClose { // the end of the end: nothing is left to try
		m.Step, m.EndedAt, m.DueAt = stepEnded, e.Now(), time.Time{}
		if m.Outcome == "" {
			m.Outcome, m.Message = string(final.outcome), final.message
		}
		return e.Store.Save(ctx, m, e.Now())
	}
	m.Outcome, m.Message = string(final.outcome), e.Redact(final.message)
	m.Step, m.Failures, m.DueAt = stepClose, 0, e.Now()
	return e.Store.Save(ctx, m, e.Now())
}

func repoOf(m *store.Mission) installation.Repo {
	return installation.Repo{InstallationID: m.InstallationID, ID: m.RepositoryID, Owner: m.Owner, Name: m.Name}
}

func (e *Engine) remote(m *store.Mission, p installation.Purpose) gitstore.Remote {
	return gitstore.Remote{
		Key:         storeKey(m.RepositoryID),
		URL:         fmt.Sprintf("%s/%s/%s.git", e.GitHubURL, m.Owner, m.Name),
		Credentials: e.GitHub.GitCredentials(repoOf(m), p),
	}
}

func storeKey(repository int64) string { return fmt.Sprintf("gh-%d", repository) }
