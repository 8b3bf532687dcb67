package installation_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/fixtures/github"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// world is a GitHub with one private repository, octo/calc, in which the App is installed.
type world struct {
	double   *github.Server
	app      *installation.App
	repo     installation.Repo
	redactor *redact.Redactor
	log      *buffer
	clock    *clock
	mints    *counter
}

// buffer is a log that tests may read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// clock is ahead of the real one by what the test says.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// counter counts the calls that reach the wire.
type counter struct {
	next     http.RoundTripper
	mu       sync.Mutex
	calls    map[string]int // by method and last segment of the path
	authored []string       // values of Authorization
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	path := strings.Split(req.URL.Path, "/")
	c.mu.Lock()
	c.calls[req.Method+" "+path[len(path)-1]]++
	c.authored = append(c.authored, req.Header.Get("Authorization"))
	c.mu.Unlock()
	return c.next.RoundTrip(req)
}

func (c *counter) count(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

func newWorld(t *testing.T, permissions map[string]string) *world {
	t.Helper()
	double, err := github.New(github.Options{})
	must(t, err)
	t.Cleanup(func() { _ = double.Close() })
	must(t, double.Start("127.0.0.1:0"))
	_, err = double.AddUser("octo")
	must(t, err)
	repo, err := double.AddRepo("octo/calc", github.RepoOptions{Files: map[string]string{"README.md": "calc\n"}})
	must(t, err)
	_, err = double.AddRepo("octo/other", github.RepoOptions{Files: map[string]string{"README.md": "other\n"}})
	must(t, err)
	bot, err := double.AddApp(github.AppOptions{Owner: "octo", Name: "sandpiper", Permissions: permissions})
	must(t, err)
	inst, err := double.Install("sandpiper", "octo")
	must(t, err)

	w := &world{
		double: double, redactor: redact.New(), log: new(buffer), clock: new(clock),
		repo:  installation.Repo{InstallationID: inst.ID, ID: repo.ID, Owner: "octo", Name: "calc"},
		mints: &counter{next: http.DefaultTransport.(*http.Transport).Clone(), calls: make(map[string]int)},
	}
	w.app, err = installation.New(installation.Config{
		AppID: bot.ID, Key: redact.NewSecret(string(bot.PrivateKeyPEM())), APIURL: double.URL(), Transport: w.mints,
		Redactor: w.redactor, Clock: w.clock.now,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	must(t, err)
	return w
}

// all are the permissions of the App's manifest.
func all() map[string]string {
	return map[string]string{"contents": "write", "issues": "write", "pull_requests": "write", "checks": "write"}
}

func (w *world) client(t *testing.T, purpose installation.Purpose) *gh.Client {
	t.Helper()
	c, err := w.app.Client(t.Context(), w.repo, purpose)
	must(t, err)
	return c
}

func TestTokenReachesOneRepositoryForOnePurpose(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	c := w.client(t, installation.Read)
	if _, _, err := c.Repositories.Get(t.Context(), "octo", "calc"); err != nil {
		t.Errorf("the repository itself: %v", err)
	}
	var e *gh.ErrorResponse
	if _, _, err := c.Repositories.Get(t.Context(), "octo", "other"); !errors.As(err, &e) || e.Response.StatusCode != 404 {
		t.Errorf("another repository: got %v, want 404", err)
	}
	_, _, err := c.Issues.Create(t.Context(), "octo", "calc", &gh.IssueRequest{Title: gh.String("x")})
	var permission *installation.ErrPermission
	if !errors.As(err, &permission) || !errors.As(err, &e) || e.Response.StatusCode != 403 {
		t.Errorf("a write with a token for reading: got %v, want ErrPermission over a 403", err)
	}
	if _, _, err := w.client(t, installation.Issues).Issues.Create(t.Context(), "octo", "calc", &gh.IssueRequest{Title: gh.String("x")}); err != nil {
		t.Errorf("a write with a token for issues: %v", err)
	}
}

func TestManyCallersOneMint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			c, err := w.app.Client(t.Context(), w.repo, installation.Read)
			if err != nil {
				t.Error(err)
				return
			}
			if _, _, _, err := c.Repositories.GetContents(t.Context(), "octo", "calc", "README.md", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := w.mints.count("POST access_tokens"); got != 1 {
		t.Errorf("got %d mints, want 1", got)
	}
}

func TestFirstCallerLeavingDoesNotFailTheMint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	must(t, w.double.AddFault(github.Fault{Method: "POST", Path: "access_tokens", Delay: 300 * time.Millisecond}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.app.Client(ctx, w.repo, installation.Read); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the deadline", err)
	}
	w.client(t, installation.Read)
	if got := w.mints.count("POST access_tokens"); got != 1 {
		t.Errorf("got %d mints, want 1", got)
	}
}

func TestCase07TokenIsReplacedBeforeItExpiresAndAfterItDied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	c := w.client(t, installation.Promote)
	credentials := w.app.GitCredentials(w.repo, installation.Promote)
	_, first, err := credentials(t.Context())
	must(t, err)

	w.clock.ahead.Store(int64(49 * time.Minute))
	if _, same, _ := credentials(t.Context()); same.Reveal() != first.Reveal() {
		t.Error("a token with eleven minutes left was replaced")
	}
	w.clock.ahead.Store(int64(51 * time.Minute))
	_, second, err := credentials(t.Context())
	must(t, err)
	if second.Reveal() == first.Reveal() {
		t.Error("a token with nine minutes left was given out")
	}

	// Seventy minutes into a mission every token that was minted before is dead, whatever its expiry said. A client that
	// was made at the start goes on, also with a write.
	w.double.ExpireTokens()
	ref := &gh.Reference{Ref: gh.String("refs/heads/work"), Object: &gh.GitObject{SHA: gh.String(head(t, w))}}
	w.double.ExpireTokens()
	if _, _, err := c.Git.CreateRef(t.Context(), "octo", "calc", ref); err != nil {
		t.Errorf("a write after the token died: %v", err)
	}
	_, third, err := credentials(t.Context())
	must(t, err)
	w.double.ExpireTokens()
	w.clock.ahead.Store(int64(53 * time.Minute))
	_, fourth, err := credentials(t.Context())
	must(t, err)
	if fourth.Reveal() == third.Reveal() {
		t.Error("git got a token that is dead")
	}
}

func head(t *testing.T, w *world) string {
	t.Helper()
	b, _, err := w.client(t, installation.Read).Repositories.GetBranch(t.Context(), "octo", "calc", "main", 1)
	must(t, err)
	return b.GetCommit().GetSHA()
}

func TestOldTokenServesWhileMintingFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	credentials := w.app.GitCredentials(w.repo, installation.Read)
	_, first, err := credentials(t.Context())
	must(t, err)
	w.clock.ahead.Store(int64(55 * time.Minute))
	must(t, w.double.AddFault(github.Fault{Path: "access_tokens", Status: 500, Times: -1}))
	if _, same, err := credentials(t.Context()); err != nil || same.Reveal() != first.Reveal() {
		t.Errorf("with five minutes left: got %v, want the old token", err)
	}
	w.clock.ahead.Store(int64(2 * time.Hour))
	if _, _, err := credentials(t.Context()); err == nil {
		t.Error("a dead token was given out")
	}
}

func TestNewTokenThatIsNotKnownEverywhereYet(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403, 404} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, all())
			must(t, w.double.AddFault(github.Fault{Method: "GET", Path: "^/repos/octo/calc$", Status: status, Times: 2, Message: "Not yet"}))
			if _, err := w.app.Client(t.Context(), w.repo, installation.Read); err != nil {
				t.Error(err)
			}
			if got := w.mints.count("GET calc"); got != 3 {
				t.Errorf("got %d tries, want 3", got)
			}
		})
	}
}

func TestCase08TokenIsRedactedFromItsFirstMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	_, token, err := w.app.GitCredentials(w.repo, installation.Read)(t.Context())
	must(t, err)
	if text := w.redactor.String("the token is " + token.Reveal()); strings.Contains(text, token.Reveal()) {
		t.Errorf("not redacted: %s", text)
	}
	if part := token.Reveal()[7:]; w.redactor.String(part) == part { // which does not look like a token
		t.Error("without its first characters it is not redacted")
	}
	c := w.client(t, installation.Read)
	_, _, err = c.Issues.Create(t.Context(), "octo", "calc", &gh.IssueRequest{Title: gh.String("x")})
	var e *gh.ErrorResponse
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if got := e.Response.Request.Header.Get("Authorization"); got != "" {
		t.Error("the error carries the token around in its request")
	}
	for _, authorization := range w.mints.authored {
		_, secret, _ := strings.Cut(authorization, " ")
		if strings.Contains(w.log.String()+err.Error(), secret) {
			t.Errorf("a credential is in the log or in the error")
		}
	}
}

func TestReleaseRevokes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	c := w.client(t, installation.Read)
	first, second := w.app.Hold(w.repo), w.app.Hold(w.repo)
	w.app.Release(t.Context(), w.repo)
	first(t.Context())
	first(t.Context())
	if got := w.mints.count("DELETE token"); got != 0 {
		t.Errorf("got %d revocations while somebody holds, want none", got)
	}
	second(t.Context())
	if got := w.mints.count("DELETE token"); got != 1 {
		t.Errorf("got %d revocations, want 1", got)
	}
	if _, _, err := c.Repositories.Get(t.Context(), "octo", "calc"); err != nil {
		t.Errorf("a client after Release: %v", err)
	}
	w.app.Hold(w.repo)(t.Context())
	if got := w.mints.count("DELETE token"); got != 1 {
		t.Errorf("got %d revocations after a hold without a release, want no other", got)
	}
	w.app.Close(t.Context())
	if got := w.mints.count("DELETE token"); got != 2 {
		t.Errorf("got %d revocations after Close, want 2", got)
	}
	if _, err := w.app.Client(t.Context(), w.repo, installation.Read); err == nil {
		t.Error("a closed App minted")
	}
}

func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	c := w.client(t, installation.Read)
	for range 2 {
		content, _, _, err := c.Repositories.GetContents(t.Context(), "octo", "calc", "README.md", nil)
		must(t, err)
		if text, err := content.GetContent(); err != nil || text != "calc\n" {
			t.Errorf("got %q, %v", text, err)
		}
	}
	if !strings.Contains(w.log.String(), "status=304") {
		t.Error("the second request was not conditional")
	}
}

func TestDataRaceOfManyPurposes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			c, err := w.app.Client(t.Context(), w.repo, installation.Purpose(i%4))
			if err != nil {
				t.Error(err)
				return
			}
			if _, _, err := c.Repositories.Get(t.Context(), "octo", "calc"); err != nil {
				t.Error(err)
			}
			if i%16 == 0 {
				w.app.Release(t.Context(), w.repo)
			}
		})
	}
	wg.Wait()
	w.app.Close(t.Context())
}

// TestExpiredTokensAreForgotten has a bot visit what it never comes back to: after an hour nothing looks for that token any more.
func TestExpiredTokensAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	_, token, err := w.app.GitCredentials(w.repo, installation.Read)(t.Context())
	must(t, err)
	part := token.Reveal()[len("ghs_"):] // which does not look like a token
	if got := w.redactor.String(part); got == part {
		t.Error("a live token is not redacted")
	}
	w.clock.ahead.Store(int64(2 * time.Hour))
	w.client(t, installation.Issues)
	if got := w.redactor.String(part); got != part {
		t.Errorf("a token that expired an hour ago is still looked for: %q", got)
	}
}
