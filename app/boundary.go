package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

// boundary holds the verdicts of the probes: at the start, on a timer, and before a backend is first used. A backend without a
// verdict that passes takes no new work.
type boundary struct {
	probe  func(ctx context.Context, backend string) probe.Result
	record func(probe.Result)
	every  time.Duration
	file   string // where the last verdicts are kept
	log    *slog.Logger
	now    func() time.Time
	wake   func() // a backend was opened
	ask    chan struct{}

	mu    sync.Mutex
	last  map[string]probe.Result // by the name that was asked for
	due   map[string]time.Time
	where string // this program on this boot of this machine: verdicts of another one do not count
}

const (
	whileClosed = time.Minute      // between two tries of a backend that is closed
	afterStart  = 20 * time.Second // until the first try of one that passed a moment ago, before this process started
)

func newBoundary(b *boundary, backends ...string) *boundary {
	b.ask, b.last, b.due, b.where = make(chan struct{}, 1), map[string]probe.Result{}, map[string]time.Time{}, whereabouts()
	if b.wake == nil {
		b.wake = func() {}
	}
	kept := b.load()
	for _, name := range backends {
		b.due[name] = b.now()
		if r, ok := kept[name]; ok && r.OK() && b.now().Sub(r.Started) < b.every && !r.Started.After(b.now()) {
			b.last[name], b.due[name] = r, b.now().Add(min(afterStart, b.every))
		}
	}
	return b
}

// kept is the file of verdicts.
type kept struct {
	Where    string                  `json:"where"`
	Verdicts map[string]probe.Result `json:"verdicts"`
}

func (b *boundary) load() map[string]probe.Result {
	var k kept
	text, err := os.ReadFile(b.file)
	if err != nil || json.Unmarshal(text, &k) != nil || k.Where != b.where {
		return nil
	}
	return k.Verdicts
}

func (b *boundary) save() {
	text, err := json.Marshal(kept{b.where, b.last})
	if err == nil {
		err = os.WriteFile(b.file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(b.file+".new", b.file)
	}
	if err != nil {
		b.log.Warn("verdicts of the probes not kept", "error", err)
	}
}

// whereabouts changes with the boot, the settings of sandboxes and the program.
func whereabouts() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	self, _ := os.Executable()
	stat, err := os.Stat(self)
	if err == nil {
		version += stat.ModTime().String()
	}
	return strings.TrimSpace(string(boot)) + " " + version
}

// Proven gives the last verdict on a backend. Where there is none, one is sought.
func (b *boundary) Proven(backend string) (r probe.Result, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, known = b.last[backend]; known {
		return r, true
	}
	if _, asked := b.due[backend]; !asked {
		b.due[backend] = b.now()
		select {
		case b.ask <- struct{}{}:
		default:
		}
	}
	return r, false
}

// closed says which of the backends that are in use take no new work, and why; empty: none.
func (b *boundary) closed() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for name := range b.due {
		switch r, known := b.last[name]; {
		case !known:
			out = append(out, fmt.Sprintf("backend %s: its boundary is being probed", name))
		case !r.OK() && !r.Unavailable: // one that this machine does not have is nothing that comes loose
			out = append(out, fmt.Sprintf("backend %s is closed: %s", name, r.Why()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// run probes until ctx ends.
func (b *boundary) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.ask:
		case <-timer.C:
		}
		wait := b.every
		for _, name := range b.dueNow() {
			b.once(ctx, name)
			if ctx.Err() != nil {
				return
			}
		}
		b.mu.Lock()
		for _, at := range b.due {
			wait = min(wait, max(at.Sub(b.now()), time.Second))
		}
		b.mu.Unlock()
		timer.Reset(wait)
	}
}

func (b *boundary) dueNow() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, at := range b.due {
		if !at.After(b.now()) {
			names = append(names, name)
		}
	}
	return names
}

// once probes one backend and opens or closes it.
func (b *boundary) once(ctx context.Context, name string) {
	r := b.probe(ctx, name)
	if ctx.Err() != nil {
		return // stopped in the middle: no verdict
	}
	b.record(r)
	b.mu.Lock()
	was, known := b.last[name]
	b.last[name] = r
	b.due[name] = b.now().Add(b.every)
	if !r.OK() && !r.Unavailable {
		b.due[name] = b.now().Add(min(whileClosed, b.every))
	}
	b.save()
	b.mu.Unlock()
	log := b.log.With("backend", name, "verdict", r.Verdict, "tier", r.Tier, "took", r.Took)
	switch {
	case r.OK() && (!known || !was.OK()):
		log.Info("boundary holds: the backend is open")
		b.wake()
	case r.OK():
		log.Info("boundary holds")
	case r.Unavailable:
		log.Info("this machine does not have the backend", "why", r.Why())
	default:
		log.Error("boundary does not hold: the backend takes no new work", "why", r.Why())
	}
}

func verdictsFile(stateDir string) string { return filepath.Join(stateDir, "probes.json") }
