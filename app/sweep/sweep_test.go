package sweep

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/fixtures/github"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

const every = 3 * time.Minute

// scene is a GitHub whose deliveries fail until the hook is mended, a database, and a sweeper with a clock that the test moves.
type scene struct {
	*Sweeper
	t      *testing.T
	double *github.Server
	store  *store.Store
	log    strings.Builder
	labels []string // repositories that were looked at for labels

	mu      sync.Mutex
	now     time.Time
	answers func(*http.Request) int // what the hook answers
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, now: time.Now(), answers: func(*http.Request) int { return http.StatusBadGateway }}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.WriteHeader(s.answers(r))
	}))
	t.Cleanup(hook.Close)
	var err error
	s.double, err = github.New(github.Options{Now: s.clock})
	must(t, err)
	t.Cleanup(func() { s.double.Close() })
	must(t, s.double.Start("127.0.0.1:0"))
	for _, name := range []string{"octavia", "olga"} {
		_, err = s.double.AddUser(name)
		must(t, err)
		_, err = s.double.AddRepo(name+"/calc", github.RepoOptions{Public: true})
		must(t, err)
	}
	app, err := s.double.AddApp(github.AppOptions{Owner: "octavia", Name: "Sandpiper", Permissions: map[string]string{"issues": "write", "pull_requests": "read"}, Events: []string{"issues"}})
	must(t, err)
	for _, name := range []string{"octavia", "olga"} {
		_, err = s.double.Install(app.Slug, name)
		must(t, err)
	}
	must(t, s.double.SetHook(app.Slug, hook.URL, "a secret of the hook"))
	s.store, err = store.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	must(t, err)
	t.Cleanup(func() { s.store.Close() })
	client, err := installation.New(installation.Config{AppID: app.ID, Key: redact.NewSecret(string(app.PrivateKeyPEM())), APIURL: s.double.URL(), Clock: s.clock, Transport: redated{s.double, app.Slug}})
	must(t, err)
	s.Sweeper = New(Config{App: client, Store: s.store, Host: "here", Every: every, Now: s.clock, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Labelled: func(_ context.Context, _ *gh.Client, repo installation.Repo) (int, error) {
			s.labels = append(s.labels, repo.Owner+"/"+repo.Name)
			return 1, nil
		}})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *scene) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// redated signs in as the App by the double's clock: whatever signs for us reads the machine's.
type redated struct {
	double *github.Server
	slug   string
}

func (r redated) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(request.Header.Get("Authorization"), "Bearer ey") {
		return http.DefaultTransport.RoundTrip(request)
	}
	app, err := r.double.AsApp(r.slug)
	if err != nil {
		return nil, err
	}
	return app.Client().Transport.RoundTrip(request)
}

// pass lets time pass, at GitHub as well.
func (s *scene) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *scene) hook(answers func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = answers
}

// events opens issues, each of which is one delivery.
func (s *scene) events(n int) {
	s.t.Helper()
	client, err := s.double.As("octavia")
	must(s.t, err)
	for range n {
		_, _, err := client.Issues.Create(s.t.Context(), "octavia", "calc", &gh.IssueRequest{Title: gh.String("x")})
		must(s.t, err)
	}
	must(s.t, s.double.Flush(s.t.Context()))
}

// did is what one turn did at GitHub, and how long the next one waits.
type did struct {
	Pages, Again int
	Wait         time.Duration
}

func (s *scene) sweep() did {
	s.t.Helper()
	s.double.ResetCallCounts()
	wait := s.turn(s.t.Context())
	must(s.t, s.double.Flush(s.t.Context()))
	return did{s.double.CallCount("GET", "/app/hook/deliveries"), s.double.CallCount("POST", "/app/hook/deliveries/{delivery_id}/attempts"), wait}
}

func (s *scene) want(what string, want did) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.sweep()); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s\n%s", what, diff, s.log.String())
	}
}

// TestWhatFailsIsAskedForAgainWithinBounds has 210 deliveries fail, and go on failing.
func TestWhatFailsIsAskedForAgainWithinBounds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.events(210)
	s.want("as many as one round may, and the next one soon", did{3, mostAgain, soon})
	s.want("the rest; those that failed twice have to wait", did{5, 10, every})
	s.pass(time.Minute)
	s.want("nothing is due", did{5, 0, every})
	s.pass(longEvery)
	s.hook(func(*http.Request) int { return http.StatusAccepted })
	s.want("an hour later all are due again", did{5, mostAgain, soon})
	s.want("and the rest", did{7, 10, every})
	s.pass(2 * longEvery)
	s.want("what has arrived is left alone", did{7, 0, every})
}

// TestWhatIsStoredIsNotAskedFor: GitHub counts as failed what was stored and whose answer was lost.
func TestWhatIsStoredIsNotAskedFor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.hook(func(r *http.Request) int {
		text, _ := io.ReadAll(r.Body)
		d := webhooks.Delivery{ID: r.Header.Get("X-GitHub-Delivery"), Event: r.Header.Get("X-GitHub-Event"), ReceivedAt: time.Now(), Body: text}
		if _, err := s.store.Put(context.WithoutCancel(r.Context()), d); err != nil {
			t.Error(err)
		}
		return http.StatusGatewayTimeout
	})
	s.events(3)
	s.hook(func(*http.Request) int { return http.StatusBadGateway })
	s.events(2)
	s.want("only what is not stored", did{1, 2, every})
}

// TestReachOfARound: three days at the start and each hour, and in between what is new.
func TestReachOfARound(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.events(150)
	s.pass(73 * time.Hour)
	s.events(20)
	s.want("what is older than three days is neither read on nor asked for", did{1, 20, every})
	s.pass(24 * time.Hour)
	s.hook(func(*http.Request) int { return http.StatusAccepted })
	s.events(250)
	s.want("a day later, all of it", did{3, 20, every})
	s.pass(10 * time.Minute)
	s.want("soon after, as far as the overlap: all of it again", did{3, 0, every})
	s.pass(20 * time.Minute)
	s.want("once more", did{3, 0, every})
	s.pass(every)
	s.want("then only what is new", did{1, 0, every})
	s.pass(longEvery)
	s.want("after an hour, all of it, with what was asked for", did{4, 0, every})
}

func TestOneBotSweeps(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.events(1)
	other := New(s.Config)
	other.Host = "there"
	s.want("the first", did{1, 1, every})
	s.double.ResetCallCounts()
	if wait := other.turn(t.Context()); wait != every || s.double.CallCount("", "") != 0 {
		t.Errorf("the other one waits %s and makes %d calls, want none", wait, s.double.CallCount("", ""))
	}
	s.pass(2*every + 2*time.Minute) // the first has died
	if other.turn(t.Context()); s.double.CallCount("GET", "/app/hook/deliveries") == 0 {
		t.Error("nobody takes over")
	}
}

// TestLabelsAreLookedForSeldom: each tenth round, once for each repository, and an installation that fails keeps no other from it.
func TestLabelsAreLookedForSeldom(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if s.sweep(); len(s.labels) != 2 {
		t.Errorf("at the start: %q, want two repositories", s.labels)
	}
	for range labelsEvery - 1 {
		s.pass(every)
		s.sweep()
	}
	if len(s.labels) != 2 {
		t.Errorf("before its time: %q", s.labels)
	}
	s.pass(every)
	must(t, s.double.AddFault(github.Fault{Method: "POST", Path: "/access_tokens$", Status: http.StatusForbidden, Message: "This installation has been suspended"}))
	s.sweep()
	if len(s.labels) != 3 {
		t.Errorf("in the tenth round, with one installation suspended meanwhile: %q", s.labels)
	}
	duty, err := s.store.Duty(t.Context(), Duty)
	if err != nil || !strings.HasPrefix(duty.Result, "failed: labels of installation") {
		t.Errorf("for operators: %+v, %v", duty, err)
	}
	// One mint, one revocation and one page of repositories for an installation.
	s.pass(labelsEvery * every)
	s.sweep()
	if got := s.double.CallCount("", ""); got != 1+1+2*3 {
		t.Errorf("%d calls for two installations, want a page of the log, one of installations, and three for each", got)
	}
}

// TestLimitIsWaitedFor: a GitHub that takes no calls is not asked before its time.
func TestLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	must(t, s.double.AddFault(github.SecondaryLimit("GET", "^/app/hook/deliveries", 1, time.Hour)))
	if got := s.turn(t.Context()); got < 59*time.Minute {
		t.Errorf("it comes again in %s", got)
	}
}

func TestGitHubWithoutALog(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	must(t, s.double.AddFault(github.Fault{Path: "^/app/hook/deliveries", Status: http.StatusNotFound, Times: -1}))
	for range 3 {
		if wait := s.turn(t.Context()); wait != unsupported*every {
			t.Errorf("it comes again in %s", wait)
		}
		s.pass(unsupported * every)
	}
	if got := strings.Count(s.log.String(), "has no log of deliveries"); got != 1 {
		t.Errorf("it is told %d times, want once:\n%s", got, s.log.String())
	}
	if len(s.labels) != 6 {
		t.Errorf("labels were looked for in %q, want each round", s.labels)
	}
}

// TestDeliveryThatHasLeftTheLog between the listing and the asking is no failure.
func TestDeliveryThatHasLeftTheLog(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.events(3)
	must(t, s.double.AddFault(github.Fault{Method: "POST", Path: "/attempts$", Status: http.StatusNotFound}))
	if result, again, err := s.deliveries(t.Context()); err != nil || again != 3 {
		t.Errorf("%q, %d, %v", result, again, err)
	}
}

// TestDeliveryThatCannotBeHadAgain is the oldest one, and keeps no other from coming.
func TestDeliveryThatCannotBeHadAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.events(3)
	must(t, s.double.AddFault(github.Fault{Method: "POST", Path: "/attempts$", Status: http.StatusUnprocessableEntity, Message: "Delivery cannot be redelivered"}))
	if result, again, err := s.deliveries(t.Context()); err == nil || again != 2 {
		t.Errorf("%q, %d, %v", result, again, err)
	}
	must(t, s.double.AddFault(github.SecondaryLimit("POST", "/attempts$", 1, time.Hour)))
	s.events(2)
	if _, again, err := s.deliveries(t.Context()); !errors.As(err, new(*installation.ErrLimited)) || again != 0 {
		t.Errorf("although GitHub takes no calls: %d, %v", again, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	cancel(errors.New("enough"))
	<-done
}
