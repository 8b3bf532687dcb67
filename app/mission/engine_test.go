package mission

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// hub is a GitHub of few words: an answer for each call that a test expects, by method and path; all else is not found.
type hub struct {
	server *httptest.Server

	mu      sync.Mutex
	away    bool           // nobody reaches it
	answers map[string]any // what is no status is the body of a 200
	calls   []string
}

func newHub(t *testing.T, answers map[string]any) *hub {
	h := &hub{answers: answers}
	h.server = httptest.NewServer(h)
	t.Cleanup(h.server.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	h.calls = append(h.calls, call)
	w.Header().Set("Content-Type", "application/json")
	switch answer := h.answers[call].(type) {
	case nil:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"message":"Not Found"}`)
	case int:
		w.WriteHeader(answer)
		io.WriteString(w, `{"message":"no"}`)
	default:
		json.NewEncoder(w).Encode(answer)
	}
}

func (h *hub) leave(away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = away
}

func (h *hub) Client(context.Context, installation.Repo, installation.Purpose) (*github.Client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away {
		return nil, installation.ErrUnreachable
	}
	gh := github.NewClient(nil)
	var err error
	gh.BaseURL, err = url.Parse(h.server.URL + "/")
	return gh, err
}

func (h *hub) GitCredentials(installation.Repo, installation.Purpose) git.Credentials { return nil }
func (h *hub) Hold(installation.Repo) (done func(context.Context))                    { return func(context.Context) {} }
func (h *hub) Forget(int64)                                                           {}

// queue looks at nothing: the tests do.
type queue struct {
	added func() // nil: nothing
}

func (q *queue) AddNow(context.Context, string, string) error {
	if q.added != nil {
		q.added()
	}
	return nil
}

func (q *queue) Run(context.Context) error { return nil }

// newEngine gives an engine on an empty database, at noon.
func newEngine(t *testing.T, h *hub) *Engine {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	e := New(Config{
		Settings: Settings{Slug: "sandpiper", Label: "sandpiper", Host: "here"},
		Store:    db, GitHub: h, Redact: func(text string) string { return text },
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon },
	})
	e.Queue, e.life = &queue{}, t.Context()
	return e
}

// begun gives an open mission for acme/calc#7 that began a minute before noon.
func (e *Engine) begun(t *testing.T, step string) *store.Mission {
	t.Helper()
	m := &store.Mission{
		ID: "m-1", Kind: store.KindIssue, InstallationID: 1, RepositoryID: 42, Owner: "acme", Name: "calc", Number: 7, Task: "{}",
		TriggerKey: "delivery:a", Requester: "octavia", TriggeredAt: noon.Add(-time.Minute), Step: step, Attempt: 1, Run: "r-1-1",
		DueAt: noon, CreatedAt: noon.Add(-time.Minute), UpdatedAt: noon,
	}
	if err := e.Store.Begin(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return m
}
