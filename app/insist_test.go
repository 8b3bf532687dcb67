package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestInsist: what fails is done again with growing waits, of a minute at most, until it goes well; each failure is in the log.
func TestInsist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &App{Log: slog.New(slog.NewTextHandler(&log, nil))}
		began := time.Now()
		var at []time.Duration
		err := a.insist(t.Context(), "GitHub is away", func() error {
			if at = append(at, time.Since(began)); len(at) < 10 {
				return errors.New("no route to host")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		s := time.Second
		if diff := cmp.Diff([]time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 63 * s, 123 * s, 183 * s, 243 * s}, at); diff != "" {
			t.Errorf("tried at (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), `"GitHub is away" error="no route to host"`); n != 9 {
			t.Errorf("%d lines in the log:\n%s", n, log.String())
		}
	})
}

// TestInsistEndsWithTheBot, in the middle of a wait.
func TestInsistEndsWithTheBot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		a := &App{Log: slog.New(slog.DiscardHandler)}
		tries, began := 0, time.Now()
		err := a.insist(ctx, "it fails", func() error { tries++; return errors.New("again") })
		if !errors.Is(err, context.DeadlineExceeded) || tries != 4 || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v and %d tries", err, time.Since(began), tries)
		}
	})
}
