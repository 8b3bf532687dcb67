package installation_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// newKey makes an App's key that nobody else has.
var newKey = sync.OnceValue(func() redact.Secret {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return redact.NewSecret(string(pem.EncodeToMemory(block)))
})

// script is a GitHub that answers each call with the next reply that is written for it. It works without a network, so
// that a test in a synctest bubble sees how long was waited.
type script struct {
	mu      sync.Mutex
	replies map[string][]reply
	calls   []string // "at method path", at in seconds since the start
	start   time.Time
}

type reply struct {
	status int
	header map[string]string
	body   string
	err    error
	takes  time.Duration
}

const api = "https://api.github.test"

var calc = installation.Repo{InstallationID: 5, ID: 77, Owner: "octo", Name: "calc"}

func newScript(t *testing.T, pace time.Duration) (*script, *installation.App) {
	t.Helper()
	s := &script{start: time.Now(), replies: map[string][]reply{}}
	app, err := installation.New(installation.Config{AppID: 1, Key: newKey(), APIURL: api, Transport: s, WritePace: pace})
	must(t, err)
	return s, app
}

// on sets the replies to a call. The last one is repeated.
func (s *script) on(call string, replies ...reply) { s.replies[call] = replies }

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	call := req.Method + " " + req.URL.Path
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%.1f %s", time.Since(s.start).Seconds(), call))
	if s.replies["POST /app/installations/5/access_tokens"] == nil {
		expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		s.on("POST /app/installations/5/access_tokens", reply{status: 201, body: `{"token":"ghs_scripted_0123456789","expires_at":"` + expires + `"}`})
	}
	if s.replies["GET /repos/octo/calc"] == nil {
		s.on("GET /repos/octo/calc", reply{status: 200, body: `{"id":77}`})
	}
	left := s.replies[call]
	if len(left) > 1 {
		s.replies[call] = left[1:]
	}
	s.mu.Unlock()
	if len(left) == 0 {
		return nil, fmt.Errorf("nothing is written for %s", call)
	}
	r := left[0]
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
	}
	if r.takes > 0 {
		select {
		case <-time.After(r.takes):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	header := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	for k, v := range r.header {
		header.Set(k, v)
	}
	return &http.Response{StatusCode: r.status, Header: header, Body: io.NopCloser(strings.NewReader(r.body)), Request: req, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// work are the calls since the token was there.
func (s *script) work() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []string
	for _, c := range s.calls {
		if !strings.Contains(c, "access_tokens") && !strings.HasSuffix(c, "GET /repos/octo/calc") {
			calls = append(calls, c)
		}
	}
	return calls
}

func client(t *testing.T, app *installation.App) *gh.Client {
	t.Helper()
	c, err := app.Client(t.Context(), calc, installation.Issues)
	must(t, err)
	return c
}

func comment(t *testing.T, c *gh.Client) error {
	t.Helper()
	_, _, err := c.Issues.CreateComment(t.Context(), "octo", "calc", 1, &gh.IssueComment{Body: gh.String("hello")})
	return err
}

const (
	commentCall = "POST /repos/octo/calc/issues/1/comments"
	issueCall   = "GET /repos/octo/calc/issues/1"
)

// TestLimits has every way in which GitHub says "later": https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
func TestLimits(t *testing.T) {
	t.Parallel()
	secondary := `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`
	reset := func(d time.Duration) map[string]string {
		// A bubble's clock starts at the beginning of 2000.
		at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Unix()
		return map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": fmt.Sprint(at)}
	}
	for _, tt := range []struct {
		name  string
		limit reply
		calls []string
		later time.Duration // 0: it went through
	}{
		{"ShortRetryAfter", reply{status: 403, header: map[string]string{"Retry-After": "3"}, body: secondary}, []string{"0.0 " + commentCall, "3.0 " + commentCall}, 0},
		{"ShortRetryAfterWith429", reply{status: 429, header: map[string]string{"Retry-After": "2"}}, []string{"0.0 " + commentCall, "2.0 " + commentCall}, 0},
		{"LongRetryAfter", reply{status: 403, header: map[string]string{"Retry-After": "120"}, body: secondary}, []string{"0.0 " + commentCall}, 120 * time.Second},
		{"RetryAfterAsADate", reply{status: 429, header: map[string]string{"Retry-After": "Sat, 01 Jan 2000 00:01:30 GMT"}}, []string{"0.0 " + commentCall}, 90 * time.Second},
		{"SecondaryWithoutRetryAfter", reply{status: 403, header: map[string]string{"X-RateLimit-Remaining": "4290"}, body: secondary}, []string{"0.0 " + commentCall}, time.Minute},
		{"TooManyWithoutAnything", reply{status: 429}, []string{"0.0 " + commentCall}, time.Minute},
		{"PrimaryShort", reply{status: 403, header: reset(2 * time.Second)}, []string{"0.0 " + commentCall, "3.0 " + commentCall}, 0},
		{"PrimaryLong", reply{status: 403, header: reset(30 * time.Minute)}, []string{"0.0 " + commentCall}, 30*time.Minute + time.Second},
		{"PrimaryWith429", reply{status: 429, header: reset(30 * time.Minute)}, []string{"0.0 " + commentCall}, 30*time.Minute + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				s.on(commentCall, tt.limit, reply{status: 201, body: `{"id":1}`})
				c := client(t, app)
				err := comment(t, c)
				if d := cmp.Diff(tt.calls, s.work()); d != "" {
					t.Errorf("calls: %s", d)
				}
				if tt.later == 0 {
					if err != nil {
						t.Errorf("got %v, want it to go through", err)
					}
					return
				}
				var limited *installation.ErrLimited
				var e *gh.ErrorResponse
				if !errors.As(err, &limited) || limited.RetryAfter != tt.later || !errors.As(err, &e) {
					t.Fatalf("got %v, want ErrLimited for %v over GitHub's answer", err, tt.later)
				}
				// While it lasts nothing is sent, by no client of the installation; after that it goes through.
				if err := comment(t, client(t, app)); !errors.As(err, &limited) || len(s.work()) != 1 {
					t.Errorf("while limited: got %v after %d calls", err, len(s.work()))
				}
				<-time.After(tt.later)
				if err := comment(t, c); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func TestSecondaryLimitWithoutATimeGetsLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on(commentCall, reply{status: 429})
		c := client(t, app)
		var got []time.Duration
		for range 6 {
			var limited *installation.ErrLimited
			if err := comment(t, c); !errors.As(err, &limited) {
				t.Fatalf("got %v", err)
			}
			got = append(got, limited.RetryAfter)
			<-time.After(limited.RetryAfter)
		}
		want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestUsedUpQuotaIsNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		reset := fmt.Sprint(time.Now().Add(time.Hour).Unix())
		s.on(issueCall, reply{status: 200, body: `{"number":1}`, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}})
		c := client(t, app)
		if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil {
			t.Fatal(err)
		}
		var limited *installation.ErrLimited
		if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); !errors.As(err, &limited) || len(s.work()) != 1 {
			t.Errorf("got %v after %d calls, want ErrLimited after one", err, len(s.work()))
		}
	})
}

func TestWritesArePaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, time.Second)
		s.on(commentCall, reply{status: 201, body: `{"id":1}`, takes: 500 * time.Millisecond})
		s.on(issueCall, reply{status: 200, body: `{"number":1}`})
		c := client(t, app)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := comment(t, c); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		var writes, reads []string
		for _, call := range s.work() {
			if strings.Contains(call, "POST") {
				writes = append(writes, call)
			} else {
				reads = append(reads, call)
			}
		}
		want := []string{"0.0 " + commentCall, "1.5 " + commentCall, "3.0 " + commentCall}
		if d := cmp.Diff(want, writes); d != "" {
			t.Errorf("writes: %s", d)
		}
		if d := cmp.Diff([]string{"0.0 " + issueCall}, reads); d != "" {
			t.Errorf("reads must not wait: %s", d)
		}
	})
}

func TestOnlyReadsAreRetried(t *testing.T) {
	t.Parallel()
	hangup := reply{err: errors.New("connection reset by peer")}
	for _, tt := range []struct {
		name    string
		trouble reply
	}{
		{"Hangup", hangup},
		{"BadGateway", reply{status: 502, body: "<html>"}},
		{"NoAnswer", reply{status: 200, takes: time.Hour}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				c := client(t, app)
				s.on(issueCall, tt.trouble, tt.trouble, reply{status: 200, body: `{"number":1}`})
				if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil || len(s.work()) != 3 {
					t.Errorf("a read: got %v after %d calls, want success after 3", err, len(s.work()))
				}
				s.on(commentCall, tt.trouble)
				if err := comment(t, c); err == nil || len(s.work()) != 4 {
					t.Errorf("a write: got %v after %d calls, want failure after one more", err, len(s.work())-3)
				}
			})
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on(issueCall, reply{err: errors.New("no such host")})
		_, _, err := client(t, app).Issues.Get(t.Context(), "octo", "calc", 1)
		if !errors.Is(err, installation.ErrUnreachable) || len(s.work()) != 3 {
			t.Errorf("got %v after %d calls", err, len(s.work()))
		}
	})
}

// TestMinting has what GitHub answers when it gives no token, and TestCase29 what it answers in the middle of the work.
func TestMinting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer reply
		want   error
		text   string
	}{
		{"Suspended", reply{status: 403, body: `{"message":"This installation has been suspended"}`}, installation.ErrSuspended, ""},
		{"RepositoryGone", reply{status: 422, body: `{"message":"There is at least one repository that does not exist or is not accessible to the parent installation."}`}, installation.ErrWithdrawn, ""},
		{"InstallationGone", reply{status: 404, body: `{"message":"Not Found"}`}, installation.ErrWithdrawn, ""},
		{"PermissionNotGranted", reply{status: 422, body: `{"message":"The permissions requested are not granted to this installation."}`}, nil, "issues: write, metadata: read, pull_requests: write"},
		{"BadKey", reply{status: 401, body: `{"message":"A JSON web token could not be decoded"}`}, installation.ErrUnauthorized, ""},
		{"ClockBehind", reply{status: 401, header: map[string]string{"Date": "Sat, 01 Jan 2000 00:05:00 GMT"}, body: `{"message":"'Expiration time' claim ('exp') is too far in the future"}`}, installation.ErrUnauthorized, "clock of this machine is 5m0s behind GitHub's"},
		{"ClockAhead", reply{status: 401, header: map[string]string{"Date": "Fri, 31 Dec 1999 23:00:00 GMT"}}, installation.ErrUnauthorized, "clock of this machine is 1h0m0s ahead of GitHub's"},
		{"NotOffered", reply{status: 501, body: `{"message":"Not Implemented"}`}, installation.ErrUnsupported, ""},
		{"Limited", reply{status: 429, header: map[string]string{"Retry-After": "60"}}, nil, "takes no calls of this installation for 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				s.on("POST /app/installations/5/access_tokens", tt.answer)
				s.on("GET /app/installations/5", reply{status: 200, body: `{"id":5,"permissions":{"issues":"read","contents":"write"}}`})
				_, err := app.Client(t.Context(), calc, installation.Issues)
				var e *gh.ErrorResponse
				if err == nil || !errors.As(err, &e) || e.Response.StatusCode != tt.answer.status {
					t.Fatalf("got %v, want an error over GitHub's answer", err)
				}
				if tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %q, want it to say %q", err, tt.text)
				}
			})
		})
	}
}

func TestSuspendedIsNotAskedAgainForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on("POST /app/installations/5/access_tokens", reply{status: 403, body: `{"message":"This installation has been suspended"}`})
		for range 10 {
			if _, err := app.Client(t.Context(), calc, installation.Read); !errors.Is(err, installation.ErrSuspended) {
				t.Fatal(err)
			}
		}
		<-time.After(2 * time.Minute)
		_, _ = app.Client(t.Context(), calc, installation.Read)
		app.Forget(calc.InstallationID)
		_, _ = app.Client(t.Context(), calc, installation.Read)
		if got := len(s.calls); got != 3 {
			t.Errorf("got %d calls, want 3", got)
		}
	})
}

func TestNameThatBelongsToAnotherRepositoryNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on("GET /repos/octo/calc", reply{status: 200, body: `{"id":78}`})
		s.on("DELETE /installation/token", reply{status: 204})
		if _, err := app.Client(t.Context(), calc, installation.Read); !errors.Is(err, installation.ErrWithdrawn) {
			t.Errorf("got %v", err)
		}
		if got := s.work(); len(got) != 1 || !strings.HasSuffix(got[0], "DELETE /installation/token") {
			t.Errorf("the token that nobody got must be revoked, got %v", got)
		}
	})
}

func TestCase29AnswersInTheMiddleOfTheWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer reply
		want   error // nil: go-github's error, for the caller
	}{
		{"IssueDeleted", reply{status: 410, body: `{"message":"This issue was deleted"}`}, nil},
		{"Transferred", reply{status: 404, body: `{"message":"Not Found"}`}, nil},
		{"Archived", reply{status: 403, body: `{"message":"Repository was archived so is read-only."}`}, installation.ErrArchived},
		{"Suspended", reply{status: 403, body: `{"message":"This installation has been suspended"}`}, installation.ErrSuspended},
		{"OtherForbidden", reply{status: 403, body: `{"message":"Must have admin rights to Repository."}`}, nil},
		{"NotOffered", reply{status: 501}, installation.ErrUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				s.on(commentCall, tt.answer)
				err := comment(t, client(t, app))
				var e *gh.ErrorResponse
				if !errors.As(err, &e) || e.Response.StatusCode != tt.answer.status || len(s.work()) != 1 {
					t.Fatalf("got %v after %d calls, want GitHub's answer after one", err, len(s.work()))
				}
				if tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestPermissionThatGitHubNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on(commentCall, reply{
			status: 403, body: `{"message":"Resource not accessible by integration"}`,
			header: map[string]string{"X-Accepted-GitHub-Permissions": "issues=write; pull_requests=write"},
		})
		var permission *installation.ErrPermission
		if err := comment(t, client(t, app)); !errors.As(err, &permission) || permission.Missing != "issues: write; pull_requests: write" {
			t.Errorf("got %v", err)
		}
	})
}

func TestHookOfAServerThatIsNotQuiteGitHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on("GET /app/hook/deliveries", reply{status: 404, body: `{"message":"Not Found"}`})
		if _, _, err := app.AppClient().Apps.ListHookDeliveries(t.Context(), nil); !errors.Is(err, installation.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	})
}

// TestRedirects uses real servers: what net/http does with a redirect is the point.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere, body bytes.Buffer
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(&elsewhere, r.Method, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("POST /app/installations/5/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"token":"ghs_x_0123456789","expires_at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	})
	mux.HandleFunc("GET /repos/octo/calc", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"id":77}`) })
	mux.HandleFunc("GET /repos/octo/calc/issues/{n}", func(w http.ResponseWriter, r *http.Request) {
		base := map[string]string{"1": server.URL, "2": other.URL}[r.PathValue("n")]
		http.Redirect(w, r, base+"/repositories/77/issues/1", http.StatusMovedPermanently)
	})
	mux.HandleFunc("GET /repositories/77/issues/1", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"number":1}`) })
	mux.HandleFunc("POST /repos/octo/calc/issues/{n}/comments", func(w http.ResponseWriter, r *http.Request) {
		n := r.PathValue("n")
		base := map[string]string{"1": server.URL, "2": other.URL, "3": server.URL}[n]
		status := map[string]int{"1": http.StatusMovedPermanently, "2": http.StatusTemporaryRedirect, "3": http.StatusSeeOther}[n]
		http.Redirect(w, r, base+"/repositories/77/issues/1/comments", status)
	})
	mux.HandleFunc("POST /repositories/77/issues/1/comments", func(w http.ResponseWriter, r *http.Request) {
		_, _ = body.ReadFrom(r.Body)
		w.WriteHeader(201)
		fmt.Fprint(w, `{"id":9}`)
	})
	app, err := installation.New(installation.Config{AppID: 1, Key: newKey(), APIURL: server.URL})
	must(t, err)
	c := client(t, app)

	if issue, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil || issue.GetNumber() != 1 {
		t.Errorf("GET to a renamed repository: got %v, %v", issue, err)
	}
	if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 2); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("GET to another host: got %v", err)
	}
	note := &gh.IssueComment{Body: gh.String("hello")}
	if made, _, err := c.Issues.CreateComment(t.Context(), "octo", "calc", 1, note); err != nil || made.GetID() != 9 || body.String() != "{\"body\":\"hello\"}\n" {
		t.Errorf("POST to a renamed repository: got %v, %v with body %q", made, err, body.String())
	}
	if _, _, err := c.Issues.CreateComment(t.Context(), "octo", "calc", 2, note); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("POST to another host: got %v", err)
	}
	if _, _, err := c.Issues.CreateComment(t.Context(), "octo", "calc", 3, note); err == nil || !strings.Contains(err.Error(), "turn POST into GET") {
		t.Errorf("POST that would become a GET: got %v", err)
	}
	if elsewhere.Len() > 0 {
		t.Errorf("the other host was called: %s", elsewhere.String())
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]installation.Config{
		"no key":     {AppID: 1, APIURL: api},
		"not a key":  {AppID: 1, APIURL: api, Key: redact.NewSecret("-----BEGIN X-----")},
		"no id":      {Key: newKey(), APIURL: api},
		"no address": {AppID: 1, Key: newKey(), APIURL: "api"},
	} {
		if _, err := installation.New(c); err == nil {
			t.Errorf("%s: New takes it", name)
		}
	}
}
