package installation_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

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
