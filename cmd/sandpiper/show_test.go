package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// TestShowTellsWhatLasts has a line on a terminal while a step goes on, which the next one replaces, and none in a pipe.
func TestShowTellsWhatLasts(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{true, false} {
		var out bytes.Buffer
		s := &show{w: &out, live: live}
		s.meanwhile("verify", time.Now())
		s.meanwhile("archive", time.Now()) // takes no time
		lines := make(chan logLine, 2)
		lines <- logLine{Msg: "step done", Step: "verify", Next: "promote", Found: "build, test"}
		lines <- logLine{Msg: "step done", Step: "archive", Next: "waiting", Found: "for a review"}
		if _, err := s.follow(context.Background(), lines); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if !strings.Contains(got, "✓ checks     build, test\n") || !strings.Contains(got, "· waiting    for a review\n") {
			t.Errorf("live %v: %q", live, got)
		}
		if strings.Contains(got, "the checks run") != live || strings.Contains(got, "\x1b[K") != live {
			t.Errorf("live %v: %q", live, got)
		}
	}
}
