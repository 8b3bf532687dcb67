package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

// probed is a boundary whose verdicts a test decides on.
type probed struct {
	*boundary
	mu       sync.Mutex
	now      time.Time
	verdict  probe.Verdict
	tries    int
	recorded []probe.Result
	woken    int
}

func newProbed(t *testing.T, file string, v probe.Verdict) *probed {
	t.Helper()
	p := &probed{verdict: v, now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { p.mu.Lock(); defer p.mu.Unlock(); return p.now }
	p.boundary = newBoundary(&boundary{
		probe: func(_ context.Context, backend string) probe.Result {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.tries++
			r := probe.Result{Backend: backend, Verdict: p.verdict, Started: p.now, Tier: probe.Colleague}
			if p.verdict != probe.Pass {
				r.Tier, r.Probes = "", []probe.Outcome{{Name: "marker", Verdict: p.verdict, Why: []string{"a marker was written to /outside"}}}
			}
			return r
		},
		record: func(r probe.Result) { p.mu.Lock(); defer p.mu.Unlock(); p.recorded = append(p.recorded, r) },
		every:  time.Hour, file: file, log: slog.New(slog.DiscardHandler), now: clock,
		wake: func() { p.mu.Lock(); defer p.mu.Unlock(); p.woken++ },
	}, "overlay")
	return p
}

func (p *probed) pass(d time.Duration) { p.mu.Lock(); defer p.mu.Unlock(); p.now = p.now.Add(d) }

// due probes what is due now, as run does.
func (p *probed) step(t *testing.T) {
	for _, name := range p.dueNow() {
		p.once(t.Context(), name)
	}
}

func TestBackendClosesAndOpensAgain(t *testing.T) {
	t.Parallel()
	p := newProbed(t, filepath.Join(t.TempDir(), "probes.json"), probe.Pass)
	if _, known := p.Proven("overlay"); known || !strings.Contains(p.closed(), "is being probed") {
		t.Errorf("open before anything was tried: %q", p.closed())
	}
	p.step(t)
	if r, known := p.Proven("overlay"); !known || !r.OK() || p.closed() != "" || p.woken != 1 {
		t.Errorf("after a pass: %+v, closed %q, woken %d", r, p.closed(), p.woken)
	}
	p.pass(59 * time.Minute)
	p.step(t)
	if p.tries != 1 {
		t.Errorf("%d tries within the hour, want 1", p.tries)
	}
	p.verdict = probe.Breach
	p.pass(time.Minute)
	p.step(t)
	if r, _ := p.Proven("overlay"); r.OK() || !strings.Contains(p.closed(), "probe marker: a marker was written to /outside") {
		t.Errorf("after a breach: %+v, closed %q", r, p.closed())
	}
	p.verdict = probe.Pass
	p.pass(time.Minute)
	p.step(t)
	if p.closed() != "" || p.woken != 2 || p.tries != 3 || len(p.recorded) != 3 {
		t.Errorf("after it passes again: closed %q, woken %d, %d tries, %d records", p.closed(), p.woken, p.tries, len(p.recorded))
	}
}

func TestBackendIsProbedBeforeFirstUse(t *testing.T) {
	t.Parallel()
	p := newProbed(t, filepath.Join(t.TempDir(), "probes.json"), probe.Pass)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.run(ctx) }()
	defer func() { stop(); <-done }()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if r, known := p.Proven("container"); known {
			if !r.OK() {
				t.Errorf("%+v", r)
			}
			return
		}
		select {
		case <-limit.C:
			t.Fatal("a backend that was asked for is not probed")
		case <-tick.C:
		}
	}
}

// A restarted bot takes over a verdict that is fresh, and tries again soon.
func TestVerdictOutlivesARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "probes.json")
	newProbed(t, file, probe.Pass).step(t)
	p := newProbed(t, file, probe.Breach)
	if p.closed() != "" {
		t.Errorf("closed after a restart: %s", p.closed())
	}
	p.pass(afterStart)
	p.step(t)
	if p.closed() == "" {
		t.Error("the first try after the restart does not count")
	}
	if again := newProbed(t, file, probe.Pass); again.closed() == "" {
		t.Error("a verdict that did not pass opens a backend after a restart")
	}
}
