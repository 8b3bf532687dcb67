package sandbox

import (
	"context"
	"fmt"
)

// Materialiser is implemented by backends whose workspaces are no directory of the host: it makes Path one, a copy that a person
// can look at and that no command changes.
type Materialiser interface {
	Materialise(ctx context.Context, w Workspace) error
}

// Materialise makes Path a place where the files are as they are now, and returns it. It may take the time of a checkout.
func (m *Manager) Materialise(ctx context.Context, id ID) (string, error) {
	r, err := m.acquire(ctx, id)
	if err != nil {
		return "", err
	}
	defer r.release()
	if !r.rec.Made {
		return "", fmt.Errorf("sandbox %s: its workspace was not finished, create it again", id)
	}
	if b, ok := r.backend.(Materialiser); ok {
		if err := b.Materialise(ctx, m.workspace(r)); err != nil {
			return "", fmt.Errorf("copy the files of sandbox %s: %w", id, err)
		}
	}
	return r.backend.Path(m.workspace(r)), nil
}
