package mission

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/places"
	"github.com/sandpiper-bot/sandpiper/app/review"
	"github.com/sandpiper-bot/sandpiper/app/say"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// GitHub is the App as this package uses it: clients and git credentials for one repository and one purpose.
type GitHub interface {
	Client(context.Context, installation.Repo, installation.Purpose) (*github.Client, error)
	GitCredentials(installation.Repo, installation.Purpose) git.Credentials
	// Hold keeps the repository's tokens from being revoked until done is called for each hold.
	Hold(installation.Repo) (done func(context.Context))
	Forget(installationID int64) // drops what is known of an installation that has changed
}

// Queue has missions looked at.
type Queue interface {
	AddNow(ctx context.Context, mission, host string) error
	Run(ctx context.Context) error
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
	Places    places.Limits
	Host      string // this machine's state directory, by an id of its own
	HostName  string // for people

	Backend         string // for text by people with write access
	BackendOutsider string // for text by others

	Models map[string]string // endpoints that the broker offers: their base addresses inside, by name
}

// login is that of the bot's own account.
func (s Settings) login() string { return s.Slug + "[bot]" }

// Config is what an Engine is made of.
type Config struct {
	Settings
	Store     *store.Store
	GitHub    GitHub
	Sandboxes *sandbox.Manager
	Git       *gitstore.Stores
	Reporter  *checks.Reporter
	Signer    *promote.Signer     // of manifests; nil: they are not signed
	Redact    func(string) string // everything that is posted goes through it
	Watch     Watcher             // nil: nobody
	Log       *slog.Logger
	Now       func() time.Time
	Boundary  Boundary                           // how strong backends are; nil: no work is begun
	Audit     func(context.Context, audit.Entry) // nil: nothing is recorded
}

// Engine moves missions on.
type Engine struct {
	Config
	Queue   Queue // set before Run
	say     *say.Poster
	gate    *review.Gate
	life    context.Context // of Run
	ticks   atomic.Int64
	wake    chan struct{} // a delivery may be due
	changed chan struct{} // somebody waits for a place, or has left one
	pins    chan struct{} // held by those who ask git for a base
	botID   atomic.Int64  // of our account; 0: not asked yet

	mu      sync.Mutex
	ticking map[string]context.CancelCauseFunc // by mission
	lanes   map[string]*lane                   // by issue
	bases   map[string]chan struct{}           // where a mission runs checks now, by repository and commit; closed at the end of that
}

// mostPins bounds the git processes that ask for a base: of hundreds of missions that begin together, each would start two.
const mostPins = 8

// New makes an engine. Nothing runs before Run.
func New(c Config) *Engine {
	if c.Audit == nil {
		c.Audit = func(context.Context, audit.Entry) {}
	}
	if c.Watch == nil {
		c.Watch = unwatched{}
	}
	c.Redact = withoutPlace(c.Redact, c.StateDir)
	poster := &say.Poster{Effects: c.Store, Login: c.login(), Redact: c.Redact, Now: c.Now}
	e := &Engine{Config: c, say: poster, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), pins: make(chan struct{}, mostPins), ticking: map[string]context.CancelCauseFunc{}, lanes: map[string]*lane{}, bases: map[string]chan struct{}{}}
	e.gate = &review.Gate{GitHub: c.GitHub, Reporter: c.Reporter, Evidence: evidence{e}, Store: c.Store, Now: c.Now}
	return e
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
	stepQueue   = "queue"
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
		stepQueue:   (*Engine).admit,
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
	store.KindGroup: {
		stepTake:   (*Engine).takeGroup,
		stepQueue:  (*Engine).admit,
		stepCreate: (*Engine).createForGroup,
		stepVerify: (*Engine).verifyGroup,
		stepClose:  (*Engine).close,
	},
	store.KindChecks: {
		stepTake:    (*Engine).takePull,
		stepQueue:   (*Engine).admit,
		stepCreate:  (*Engine).createForPull,
		stepVerify:  (*Engine).verifyPull,
		stepArchive: (*Engine).archive,
		stepClose:   (*Engine).close,
		stepWaiting: (*Engine).waiting,
	},
}

func repoOf(m *store.Mission) installation.Repo {
	return installation.Repo{InstallationID: m.InstallationID, ID: m.RepositoryID, Owner: m.Owner, Name: m.Name}
}

func repoOfMeta(m webhooks.Meta) installation.Repo {
	return installation.Repo{InstallationID: m.InstallationID, ID: m.Repo.ID, Owner: m.Repo.Owner, Name: m.Repo.Name}
}

func (e *Engine) remote(m *store.Mission, p installation.Purpose) gitstore.Remote {
	return gitstore.Remote{
		Key:         storeKey(m.RepositoryID),
		URL:         fmt.Sprintf("%s/%s/%s.git", e.GitHubURL, m.Owner, m.Name),
		Credentials: e.GitHub.GitCredentials(repoOf(m), p),
	}
}

func storeKey(repository int64) string { return fmt.Sprintf("gh-%d", repository) }

func (e *Engine) runDir(run string) string { return filepath.Join(e.StateDir, "runs", run) }

// marshal is for values of our own types, which always can be.
func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("mission: %T as JSON: %v", v, err))
	}
	return string(text)
}
