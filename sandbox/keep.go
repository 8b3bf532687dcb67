package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
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
		rec, err := m.read(m.archive(), string(id))
		if err != nil {
			return fmt.Errorf("record of sandbox %s: %w", id, err)
		}
		rec.Keep = wish
		if err := durable.WriteJSON(filepath.Join(m.archived(id), "run.json"), rec); err != nil {
			return fmt.Errorf("record of sandbox %s: %w", id, err)
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
