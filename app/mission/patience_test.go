package mission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// stuck is a mission in an engine whose clock stands still.
func stuck(t *testing.T) (*Engine, *store.Mission) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	now := time.Unix(1_900_000_000, 0)
	e := New(Config{Store: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }, Redact: func(s string) string { return s }})
	m := &store.Mission{ID: "m-1", Kind: store.KindIssue, RepositoryID: 1, Number: 1, TriggerKey: "delivery:1", Step: stepVerify}
	if err := db.Begin(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return e, m
}

// TestOutageLeavesPatience: however long GitHub was away, what goes wrong after that is tried again as well.
func TestOutageLeavesPatience(t *testing.T) {
	t.Parallel()
	e, m := stuck(t)
	away := fmt.Errorf("mint: %w", installation.ErrUnreachable)
	defect := errors.New("who knows")
	var got []Result
	for _, err := range []error{away, away, away, away, defect, away, defect, defect} {
		result, err := e.failed(t.Context(), e.Log, m, err)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, result)
	}
	want := []Result{ResultRetry, ResultRetry, ResultRetry, ResultRetry, ResultRetry, ResultRetry, ResultRetry, ResultEnded}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if m.Trouble != "" {
		t.Errorf("it ended and waits for %q", m.Trouble)
	}
	if want := "this failed 3 times in a row: who knows"; m.Message != want {
		t.Errorf("it says %q, want %q", m.Message, want)
	}
}

// TestLongTroubleIsSaid: what goes by within seconds is nobody's business; what does not is said with its reason.
func TestLongTroubleIsSaid(t *testing.T) {
	t.Parallel()
	e, m := stuck(t)
	m.Trouble, m.Failures = "GitHub cannot be reached", long-1
	if text := e.statusText(t.Context(), m); strings.Contains(text, m.Trouble) {
		t.Errorf("said at once:\n%s", text)
	}
	m.Failures++
	if text := e.statusText(t.Context(), m); !strings.Contains(text, "It cannot go on for now: GitHub cannot be reached.") {
		t.Errorf("not said:\n%s", text)
	}
}

// TestLeaseThatCannotBeRenewed: who is cut off from the database stops before another bot may take the mission.
func TestLeaseThatCannotBeRenewed(t *testing.T) {
	t.Parallel()
	e, m := stuck(t)
	var ahead atomic.Int64
	began := e.Now()
	e.Now = func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	if _, err := e.Store.Lease(t.Context(), m.ID, "here/1", e.Now(), e.Now().Add(leaseFor)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer e.attend(ctx, m, "here/1", cancel)()
	e.Store.Close()
	ahead.Store(int64(3 * leaseFor))
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	if got := context.Cause(ctx); got != errInterrupted {
		t.Errorf("it works on without a lease: %v", got)
	}
}
