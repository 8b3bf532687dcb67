package ops

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Health is what /readyz says.
type Health struct {
	Ready    bool   `json:"ready"`
	Reason   string `json:"reason,omitempty"` // why it is not
	Database string `json:"database"`         // ok, or what is wrong
	Identity string `json:"identity"`         // the App's slug; empty until GitHub has told it
	Queue    string `json:"queue"`            // working, or waiting for the identity
	Waiting  int    `json:"missions_waiting"` // for a place
	// SinceDelivery is in seconds; absent when no delivery ever came.
	SinceDelivery *float64 `json:"seconds_since_last_delivery,omitempty"`
	Sweep         *Sweep   `json:"sweep,omitempty"` // absent before the first one
}

// Sweep is how the last sweep of the delivery log went.
type Sweep struct {
	Seconds float64 `json:"seconds_ago"`
	Host    string  `json:"host"`
	Result  string  `json:"result"`
}

// Options of Handler.
type Options struct {
	Metrics  *Metrics
	Database interface {
		Source
		Ping(context.Context) error
	}
	Sweep    string              // the duty of the sweep
	Identity func() string       // the App's slug, or empty
	Unfit    func() string       // why GitHub takes no calls of ours, and what to do; nil, or empty: it does
	Queue    func() http.Handler // River's page; nil until there is one
	Password redact.Secret       // of the user admin for the page; zero: no page
	Now      func() time.Time
}

type server struct{ Options }

// Handler serves /healthz, /readyz, /metrics and /queue/.
func Handler(o Options) http.Handler {
	s := &server{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", o.Metrics.Handler())
	index := "/healthz\n/readyz\n/metrics\n/queue/ needs SANDPIPER_ADMIN_PASSWORD\n"
	if !o.Password.IsZero() {
		mux.HandleFunc("/queue/", s.page)
		index = "/healthz\n/readyz\n/metrics\n/queue/ (user admin)\n"
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, index) })
	return mux
}

func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTime)
	defer cancel()
	health := s.health(ctx)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !health.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(health) // whoever asked has gone
}

func (s *server) health(ctx context.Context) Health {
	h := Health{Ready: true, Database: "ok", Identity: s.Identity(), Queue: "working"}
	if h.Identity == "" {
		h.Ready, h.Reason, h.Queue = false, "GitHub has not told who we are yet; the log says why", "waiting for the identity"
	}
	if s.Unfit != nil && h.Ready {
		h.Reason = s.Unfit()
		h.Ready = h.Reason == ""
	}
	fail := func(err error) Health {
		h.Ready, h.Database, h.Reason = false, err.Error(), "the database does not answer, or cannot be written"
		return h
	}
	if err := s.Database.Ping(ctx); err != nil {
		return fail(err)
	}
	counts, err := s.Database.Count(ctx)
	if err != nil {
		return fail(err)
	}
	h.Waiting = counts.Waiting
	if !counts.Last.IsZero() {
		since := s.Now().Sub(counts.Last).Seconds()
		h.SinceDelivery = &since
	}
	duty, err := s.Database.Duty(ctx, s.Sweep)
	if err != nil {
		return fail(err)
	}
	h.Sweep = sweepOf(duty, s.Now())
	return h
}

func sweepOf(d store.Duty, now time.Time) *Sweep {
	if d.Done.IsZero() {
		return nil
	}
	return &Sweep{Seconds: now.Sub(d.Done).Seconds(), Host: d.Holder, Result: d.Result}
}

// page is River's own, behind a login: it can cancel and retry jobs.
func (s *server) page(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	named := subtle.ConstantTimeCompare([]byte(user), []byte("admin"))
	if known := subtle.ConstantTimeCompare([]byte(password), []byte(s.Password.Reveal())); named&known != 1 {
		w.Header().Set("WWW-Authenticate", `Basic realm="sandpiper", charset="UTF-8"`)
		http.Error(w, "the user is admin, the password is SANDPIPER_ADMIN_PASSWORD", http.StatusUnauthorized)
		return
	}
	// A page elsewhere could otherwise use the login that a browser keeps: every browser says where a request comes from.
	if site := r.Header.Get("Sec-Fetch-Site"); r.Method != http.MethodGet && site != "" && site != "same-origin" {
		http.Error(w, "not from another site", http.StatusForbidden)
		return
	}
	if page := s.Queue(); page != nil {
		page.ServeHTTP(w, r)
		return
	}
	http.Error(w, "the queue waits for GitHub to tell who we are", http.StatusServiceUnavailable)
}
