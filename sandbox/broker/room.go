package broker

import (
	"context"
	"sync"
)

// room is memory that several calls share. Who wants more than there is waits.
type room struct {
	mu    sync.Mutex
	free  int64
	given chan struct{} // closed when some was given back, and made anew
}

func newRoom(n int64) *room { return &room{free: n, given: make(chan struct{})} }

// take waits until there are n bytes, and takes them all at once: those who have a part could wait for each other.
func (r *room) take(ctx context.Context, n int64) error {
	for {
		r.mu.Lock()
		given := r.given
		enough := r.free >= n
		if enough {
			r.free -= n
		}
		r.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-given:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *room) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	close(r.given)
	r.given = make(chan struct{})
}
