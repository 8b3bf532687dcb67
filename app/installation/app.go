package installation

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// UserAgent is how the bot names itself to GitHub, which asks for one.
const UserAgent = "sandpiper (https://github.com/sandpiper-bot/sandpiper)"

// Config is what New needs.
type Config struct {
	AppID     int64
	Key       redact.Secret     // PEM
	APIURL    string            // root of the REST API, with or without a path
	WritePace time.Duration     // least time between two changes of one installation; 0 is none
	Transport http.RoundTripper // nil: one of its own, with the proxies of the environment
	Redactor  *redact.Redactor
	Log       *slog.Logger
	Clock     func() time.Time // when tokens expire; nil: time.Now
	Watch     Watcher          // nil: nobody
}

// Watcher is told of each answer of GitHub, for metrics. Its methods are called from many goroutines.
type Watcher interface {
	// Answered gives the class (2xx, 3xx, 304, 4xx, 5xx, limited, unreachable) and what GitHub says is left of the quota;
	// below 0 where it does not say. Installation 0 is the App itself.
	Answered(installation int64, class string, remaining int)
	Minted(ok bool)
}

// Repo names one repository as an installation reaches it. ID counts; Owner and Name are what it was called last.
type Repo struct {
	InstallationID, ID int64
	Owner, Name        string
}

// App is the App at one GitHub. It is safe for concurrent use.
type App struct {
	base     *url.URL
	exchange http.RoundTripper // without any authentication
	jwt      http.RoundTripper // signs in as the App
	app      *github.Client
	pace     time.Duration
	etags    *etags
	tokens   *tokens
	watch    Watcher
	log      *slog.Logger
	refused  atomic.Bool // the last answer to a call as the App itself was 401

	mu    sync.Mutex
	lanes map[int64]*lane // by installation; 0 is the App itself
}

// New checks the key and the address. It does not call GitHub.
func New(c Config) (*App, error) {
	base, err := url.Parse(strings.TrimRight(c.APIURL, "/") + "/")
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("address of the API %q is not an http or https address", c.APIURL)
	}
	if c.AppID <= 0 {
		return nil, fmt.Errorf("app id %d is not an id", c.AppID)
	}
	transport := c.Transport
	if transport == nil {
		transport = NewTransport()
	}
	exchange := &exchange{next: transport, timeout: callTimeout}
	// Only AppsTransport is taken from ghinstallation. Its Transport has a data race when several share an
	// AppsTransport, and gives the token to whatever host a redirect leads to.
	jwt, err := ghinstallation.NewAppsTransport(exchange, c.AppID, []byte(c.Key.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("private key of the app: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Redactor == nil {
		c.Redactor = redact.New()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Watch == nil {
		c.Watch = unwatched{}
	}
	c.Redactor.Add(c.Key)
	a := &App{
		base:     base,
		exchange: exchange,
		jwt:      jwt,
		pace:     c.WritePace,
		etags:    newETags(),
		watch:    c.Watch,
		log:      c.Log,
		lanes:    make(map[int64]*lane),
	}
	a.app = a.client(chain{sign: true})
	a.tokens = newTokens(a, c.Redactor, c.Clock)
	return a, nil
}

// AppClient speaks as the App itself: its installations, its hook, its deliveries.
func (a *App) AppClient() *github.Client { return a.app }

// Refused says whether GitHub did not accept the App's key when it was last used. The next call as the App that it accepts ends that.
func (a *App) Refused() bool { return a.refused.Load() }

// Client speaks for one purpose in one repository. It can be kept: each call carries a live token. That a token can be
// had is seen before Client returns.
func (a *App) Client(ctx context.Context, repo Repo, purpose Purpose) (*github.Client, error) {
	if _, err := a.tokens.get(ctx, repo, purpose); err != nil {
		return nil, err
	}
	token := func(next http.RoundTripper) http.RoundTripper {
		return &live{next: next, tokens: a.tokens, repo: repo, purpose: purpose}
	}
	return a.client(chain{installation: repo.InstallationID, token: token, pace: a.pace, etags: a.etags}), nil
}

// GitCredentials give a live token each time that git asks, with at least ten minutes left.
func (a *App) GitCredentials(repo Repo, purpose Purpose) git.Credentials {
	return func(ctx context.Context) (string, redact.Secret, error) {
		token, err := a.tokens.get(ctx, repo, purpose)
		if err == nil && a.tokens.unproven(token) {
			token, err = a.prove(ctx, repo, purpose)
		}
		if err != nil {
			return "", redact.Secret{}, err
		}
		a.tokens.lend(repo, token)
		return "x-access-token", token.value, nil
	}
}

// prove makes a call with a token before git gets it: a client mints again when a token has died before its time, and git
// cannot.
func (a *App) prove(ctx context.Context, repo Repo, purpose Purpose) (*token, error) {
	client, err := a.Client(ctx, repo, purpose)
	if err != nil {
		return nil, err
	}
	if _, _, err := client.Repositories.Get(ctx, repo.Owner, repo.Name); err != nil {
		return nil, fmt.Errorf("try the token for %s: %w", purpose, err)
	}
	return a.tokens.get(ctx, repo, purpose) // which the call has proved
}

// Hold says that somebody is at work in a repository, so that Release waits for them. The function that it returns ends
// that; it may be called more than once.
func (a *App) Hold(repo Repo) (done func(context.Context)) {
	a.tokens.hold(repo)
	var once sync.Once
	return func(ctx context.Context) {
		once.Do(func() { a.revokeAll(ctx, repo, a.tokens.done(repo)) })
	}
}

// Release revokes what was minted for a repository: now, or when the last Hold ends. A token that git got without a Hold
// is no longer given out, and revoked once a git command may not need it any more. What cannot be revoked expires within
// the hour; that is logged and no error.
func (a *App) Release(ctx context.Context, repo Repo) {
	a.revokeAll(ctx, repo, a.tokens.release(repo))
}

// Forget drops what is known of an installation: tokens, and that it is suspended. It is for the events that say that the
// installation has changed; tokens that were minted before keep their old permissions.
func (a *App) Forget(installation int64) { a.tokens.forget(installation) }

// Close waits for mints under way and revokes every token that is given out.
func (a *App) Close(ctx context.Context) {
	for repo, all := range a.tokens.close() {
		a.revokeAll(ctx, Repo{InstallationID: repo.installation, ID: repo.id}, all)
	}
}

func (a *App) revokeAll(ctx context.Context, repo Repo, all []*token) {
	for _, token := range all {
		a.revoke(ctx, repo.InstallationID, token)
	}
}

func (a *App) revoke(ctx context.Context, installation int64, token *token) {
	// 401 and 404: it was dead already, or the server does not know how to revoke.
	// https://github.com/actions/create-github-app-token/issues/72
	if resp, err := a.with(installation, token.value).Apps.RevokeInstallationToken(ctx); err != nil && !isStatus(resp, err, http.StatusUnauthorized, http.StatusNotFound, http.StatusNotImplemented) {
		a.log.Warn("token is not revoked and lives until it expires", "installation", installation, "expires", token.expires, "error", err)
	}
}

func (a *App) lane(installation int64) *lane {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lanes[installation]
	if l == nil {
		l = newLane()
		a.lanes[installation] = l
	}
	return l
}
