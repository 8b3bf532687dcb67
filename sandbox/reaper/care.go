package reaper

import (
	"context"
	"errors"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// layers removes those that no run has used for longer than what was discarded is kept.
func (r *round) layers(context.Context) error {
	if r.DryRun {
		return nil
	}
	removed, err := r.Manager.TrimLayers(r.now.Add(-r.Retain))
	r.report.Removed = append(r.report.Removed, removed...)
	return err
}

// care maintains the stores. What sandboxes that are open borrow is told to each by the time of the oldest of them.
func (r *round) care(ctx context.Context) error {
	if r.Care == NoCare || r.DryRun {
		return nil
	}
	keys, err := r.Manager.Stores().Keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		care, busy, err := r.careFor(key)
		if err != nil {
			return err
		}
		if busy && r.Care != Now {
			continue // what it is about to write would wait for minutes in a large store
		}
		done, err := r.Manager.Stores().Maintain(ctx, key, care)
		switch {
		case errors.Is(err, git.ErrLocked): // the next round
		case err != nil:
			r.errs = append(r.errs, err)
		case done.Skipped == "":
			r.report.Stores = append(r.report.Stores, done)
		}
	}
	return nil
}

// careFor looks at the sandboxes of a store. They are listed for each store anew: a round can take long.
func (r *round) careFor(key string) (care gitstore.Care, busy bool, err error) {
	care = gitstore.Care{Now: r.now, Force: r.Care == Now}
	recs, err := r.Manager.List()
	for _, rec := range recs { // oldest first
		if rec.Source.Key != key {
			continue
		}
		if care.Open.IsZero() {
			care.Open = rec.Created
		}
		busy = busy || rec.State == sandbox.Running
	}
	return care, busy, err
}
