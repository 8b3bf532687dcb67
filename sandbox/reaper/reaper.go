// Package reaper removes, from outside, the sandboxes that nobody came back for.
//
// It goes by records and ages, never by guesses: a run that is live, busy, kept by a person or young is left alone, and one
// that cannot be recorded stays and is reported. It can run twice, beside live runs, and beside another reaper. It must
// not remove anything in another way than the manager does.
package reaper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// DefaultRetain is how long what was discarded can be recovered.
const DefaultRetain = 30 * 24 * time.Hour

// Options of Reap.
type Options struct {
	Manager *sandbox.Manager
	MaxAge  time.Duration // since a sandbox last changed; 0: 72 h
	Retain  time.Duration // how long after a discard its refs and archive are kept; 0: DefaultRetain
	DryRun  bool          // say what would be done
	Now     func() time.Time
	Live    func(sandbox.ID) bool // whether somebody still wants the run; nil: nobody says so
	Care    Care                  // for the stores
}

// Care says what is done for the stores beside removing what is left over.
type Care int

// The ways to care. Idle packs a store anew once that gains something and no command runs in a sandbox of it.
const (
	NoCare Care = iota
	Idle
	Now
)

// Report is what was done, or in a dry run would be.
type Report struct {
	Discarded []sandbox.ID      `json:"discarded"`
	Forgotten []sandbox.ID      `json:"forgotten"`        // discarded before, now past their time
	Removed   []string          `json:"removed"`          // leftovers: directories, registrations, refs
	Skipped   map[string]string `json:"skipped"`          // runs that are old but stay, and why
	Stores    []gitstore.Cared  `json:"stores,omitempty"` // those that were packed anew
}

// Reap does one round. The error joins what went wrong with single runs; the others were done all the same.
func Reap(ctx context.Context, o Options) (Report, error) {
	if o.MaxAge == 0 {
		o.MaxAge = 72 * time.Hour
	}
	if o.Retain == 0 {
		o.Retain = DefaultRetain
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Live == nil {
		o.Live = func(sandbox.ID) bool { return false }
	}
	r := &round{Options: o, now: o.Now(), report: Report{Discarded: []sandbox.ID{}, Forgotten: []sandbox.ID{}, Removed: []string{}, Skipped: map[string]string{}}}
	for _, step := range []func(context.Context) error{r.runs, r.unborn, r.archives, r.stores, r.upkeep, r.layers, r.care} {
		if err := step(ctx); err != nil {
			r.errs = append(r.errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return r.report, errors.Join(r.errs...)
}

type round struct {
	Options
	now    time.Time
	report Report
	errs   []error
}

// runs discards what is past its age.
func (r *round) runs(ctx context.Context) error {
	recs, err := r.Manager.List()
	if err != nil {
		return err
	}
	for _, rec := range recs {
		if r.now.Sub(rec.Changed) < r.age(rec) {
			continue
		}
		if reason := r.spare(rec); reason != "" {
			r.report.Skipped[string(rec.ID)] = reason
			continue
		}
		if r.DryRun {
			r.report.Discarded = append(r.report.Discarded, rec.ID)
			continue
		}
		var gone *sandbox.ErrState
		switch _, err := r.Manager.Discard(ctx, rec.ID); {
		case err == nil:
			r.report.Discarded = append(r.report.Discarded, rec.ID)
		case errors.Is(err, sandbox.ErrUnknown), errors.As(err, &gone): // another reaper was faster
		case errors.Is(err, sandbox.ErrUnrecorded), errors.Is(err, sandbox.ErrBusy):
			r.report.Skipped[string(rec.ID)] = err.Error()
		default:
			r.errs = append(r.errs, err)
		}
	}
	return nil
}

// probeAge is after how long the sandbox of a probe is taken for that of one that was killed: a probe takes seconds.
const probeAge = 10 * time.Minute

func (r *round) age(rec sandbox.Record) time.Duration {
	if rec.Source.Key == sandbox.ProbeKey {
		return min(probeAge, r.MaxAge)
	}
	return r.MaxAge
}

// spare says why an old run stays.
func (r *round) spare(rec sandbox.Record) string {
	switch {
	case r.Live(rec.ID):
		return "live"
	case rec.Keep != nil && rec.Keep.Until.After(r.now):
		return fmt.Sprintf("kept until %s: %s", rec.Keep.Until.Format(time.RFC3339), rec.Keep.Reason)
	}
	state, err := r.Manager.Status(rec.ID)
	if err == nil && state == sandbox.Running {
		return "a command is running in it"
	}
	return ""
}

// unborn removes directories whose maker was killed before it wrote a record.
func (r *round) unborn(context.Context) error {
	ids, err := r.Manager.Unborn(r.now.Add(-r.MaxAge))
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !r.DryRun {
			if err := r.Manager.RemoveUnborn(id); err != nil {
				return err
			}
		}
		r.report.Removed = append(r.report.Removed, "directory without a record: "+string(id))
	}
	return nil
}

// archives forgets what was discarded long enough ago.
func (r *round) archives(ctx context.Context) error {
	recs, err := r.Manager.Discarded()
	if err != nil {
		return err
	}
	for _, rec := range recs {
		if r.now.Sub(rec.Changed) < r.Retain || rec.Keep != nil && rec.Keep.Until.After(r.now) || r.Live(rec.ID) {
			continue
		}
		if !r.DryRun {
			if err := r.Manager.Forget(ctx, rec.ID); err != nil {
				r.errs = append(r.errs, err)
				continue
			}
		}
		r.report.Forgotten = append(r.report.Forgotten, rec.ID)
	}
	return nil
}

// stores removes what runs that have neither directory nor archive left in the stores.
func (r *round) stores(ctx context.Context) error {
	keys, err := r.Manager.Stores().Keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := r.store(ctx, key); err != nil {
			r.errs = append(r.errs, fmt.Errorf("store %s: %w", key, err))
		}
	}
	return nil
}

// upkeep lets the backends remove what no run needs.
func (r *round) upkeep(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	removed, err := r.Manager.Upkeep(ctx)
	r.report.Removed = append(r.report.Removed, removed...)
	return err
}

func (r *round) store(ctx context.Context, key string) error {
	stores := r.Manager.Stores()
	refs, err := stores.Refs(ctx, key, "refs/sandpiper")
	if err != nil {
		return err
	}
	lost := map[sandbox.ID]bool{}
	for ref := range refs {
		id, _, _ := strings.Cut(strings.TrimPrefix(ref, "refs/sandpiper/"), "/")
		if id != "fetch" && id != "bases" && r.lost(sandbox.ID(id)) {
			lost[sandbox.ID(id)] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		if !r.DryRun {
			if err := r.Manager.DropRefs(ctx, key, id); err != nil {
				return err
			}
		}
		r.report.Removed = append(r.report.Removed, "refs of "+string(id)+" in store "+key)
	}
	if err := r.registrations(key); err != nil || r.DryRun {
		return err
	}
	swept, err := stores.Sweep(ctx, key, r.now.Add(-r.MaxAge))
	r.report.Removed = append(r.report.Removed, swept...)
	if errors.Is(err, git.ErrLocked) {
		return nil // in use: the next round
	}
	return err
}

// lost says whether nothing is known of a run and nobody wants it.
func (r *round) lost(id sandbox.ID) bool {
	_, err := r.Manager.Record(id)
	return errors.Is(err, sandbox.ErrUnknown) && !r.Live(id) && !r.Manager.Exists(id)
}

// registrations removes those of worktrees whose run is lost.
func (r *round) registrations(key string) error {
	dir := filepath.Join(r.Manager.Stores().Dir(key), "worktrees")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !r.lost(sandbox.ID(e.Name())) {
			continue
		}
		if !r.DryRun {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		r.report.Removed = append(r.report.Removed, "registration of "+e.Name()+" in store "+key)
	}
	return nil
}
