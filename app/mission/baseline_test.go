package mission

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// TestOneMissionAtATimeOnABase: others wait for their turn, or for their own end, and never for another base.
func TestOneMissionAtATimeOnABase(t *testing.T) {
	t.Parallel()
	e := &Engine{bases: map[string]chan struct{}{}}
	leave, err := e.alone(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if _, err := e.alone(ctx, "a"); !errors.Is(err, stopped) {
		t.Errorf("a second one got in, or waits on: %v", err)
	}
	other, err := e.alone(ctx, "b")
	if err != nil {
		t.Errorf("another base: %v", err)
	} else {
		other()
	}
	var inside sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			leave, err := e.alone(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			if !inside.TryLock() {
				t.Error("two at once")
			} else {
				inside.Unlock()
			}
			leave()
		})
	}
	leave()
	group.Wait()
	if len(e.bases) != 0 {
		t.Errorf("%d bases left", len(e.bases))
	}
}
