package mission

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// TestOutageLeavesPatience: however long GitHub was away, what goes wrong after that is tried again as well.
func TestOutageLeavesPatience(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := time.Unix(1_900_000_000, 0)
	log := slog.New(slog.DiscardHandler)
	e := New(Config{Store: db, Log: log, Now: func() time.Time { return now }, Redact: func(s string) string { return s }})
	m := &store.Mission{ID: "m-1", Kind: store.KindIssue, RepositoryID: 1, Number: 1, TriggerKey: "delivery:1", Step: stepVerify}
	if err := db.Begin(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	away := fmt.Errorf("mint: %w", installation.ErrUnreachable)
	defect := errors.New("who knows")
	var got []Result
	for _, err := range []error{away, away, away, away, defect, away, defect, defect} {
		result, err := e.failed(t.Context(), log, m, err)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, result)
	}
	want := []Result{ResultRetry, ResultRetry, ResultRetry, ResultRetry, ResultRetry, ResultRetry, ResultRetry, ResultEnded}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if want := "this failed 3 times in a row: who knows"; m.Message != want {
		t.Errorf("it says %q, want %q", m.Message, want)
	}
}
