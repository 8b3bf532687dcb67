package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// Keep makes the reaper leave a sandbox alone until a time, or what was recorded of one that is discarded. A zero time takes the wish back.
func (m *Manager) Keep(ctx context.Context, id ID, until time.Time, reason string) error {
	wish := &Keep{Until: until.UTC(), Reason: reason}
	if until.IsZero() {
		wish = nil
	}
	r, err := m.acquire(ctx, id)
	var gone *ErrState
	switch {
	case errors.As(err, &gone):
		if err := m.keepArchived(ctx, id, wish); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		defer r.release()
		r.rec.Keep = wish
		if err := m.save(r); err != nil {
			return err
		}
	}
	m.tell(id, "kept", reason, nil)
	return nil
}

// keepArchived writes the wish into the record of a discarded sandbox. The lock came there with it, and is held until the Discard is
// through; after that there is none but what such a wish needs.
func (m *Manager) keepArchived(ctx context.Context, id ID, wish *Keep) error {
	file := filepath.Join(m.archived(id), "lock")
	lock, err := flock.Wait(ctx, file, flock.Exclusive)
	if err != nil {
		return fmt.Errorf("sandbox %s: %w", id, err)
	}
	defer func() { _, _ = os.Remove(file), lock.Unlock() }() // whoever waits for it makes a new one
	rec, err := m.read(m.archive(), string(id))
	if err != nil {
		return fmt.Errorf("record of sandbox %s: %w", id, err)
	}
	rec.Keep = wish
	if err := durable.WriteJSON(filepath.Join(m.archived(id), "run.json"), rec); err != nil {
		return fmt.Errorf("record of sandbox %s: %w", id, err)
	}
	return nil
}
