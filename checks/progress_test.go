package checks

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// slow is a runner whose command goes on until it was looked at a number of times.
type slow struct{ looked chan struct{} }

func (s slow) RunCheck(ctx context.Context, _ sandbox.ID, _ string, _ sandbox.Command) (sandbox.CheckResult, error) {
	for range 2 {
		select {
		case <-s.looked:
		case <-ctx.Done():
		}
	}
	return sandbox.CheckResult{Exit: sandbox.Exit{Reason: sandbox.Exited}}, nil
}

func TestWatchShowsTheLastWholeLine(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("one\n\x1b[32mtoken hunter2\x1b[0m\n\nhalf a line"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := slow{make(chan struct{})}
	var seen string
	_, err := Run(t.Context(), r, "r-1", []Check{{Name: "test", Run: "make"}}, Options{
		Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") },
		Watch: Watch{
			Every: time.Millisecond, Log: func(sandbox.ID, string) string { return log },
			Progress: func(ctx context.Context, _ Check, last string) {
				seen = last
				select {
				case r.looked <- struct{}{}:
				case <-ctx.Done():
				}
			},
		},
	})
	if err != nil || seen != "token [secret]" {
		t.Errorf("%v, the last line is %q", err, seen)
	}
}
