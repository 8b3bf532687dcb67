package mission

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// TestWhatIsParkedHasNotFailed: however a step's wait for something that goes on by itself comes to its end, and whichever error comes of it.
func TestWhatIsParkedHasNotFailed(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"time is up", "the bot stops"} {
		synctest.Test(t, func(t *testing.T) {
			life, stop := context.WithCancel(t.Context())
			defer stop()
			e := &Engine{life: life}
			ctx, leave := e.parkable(t.Context())
			defer leave()
			if way == "the bot stops" {
				stop()
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, errParked) {
				t.Errorf("%s: %v", way, cause)
			}
			if err := ctx.Err(); err != context.Canceled {
				t.Fatalf("%s: %v", way, err)
			}
			m := new(store.Mission)
			for _, err := range []error{ctx.Err(), context.Cause(ctx)} {
				if got, err := e.failed(t.Context(), nil, m, fmt.Errorf("compare with the base: %w", err)); got != ResultWaiting || err != nil {
					t.Errorf("%s: %v, %v", way, got, err)
				}
			}
		})
	}
}
