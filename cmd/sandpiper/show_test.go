package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// TestShowTellsHowLongAStepTook, all its goes together, and that a check failed.
func TestShowTellsHowLongAStepTook(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	lines, began := make(chan logLine, 4), time.Now()
	lines <- logLine{Msg: "step done", Step: "create", Next: "execute", Found: "r-1", Time: began, Took: int64(time.Second)}
	lines <- logLine{Msg: "step done", Step: "execute", Next: "inspect", Found: "fix-sum", Time: began.Add(20 * time.Second), Took: int64(time.Second)}
	lines <- logLine{Msg: "step done", Step: "verify", Next: "promote", Found: "test, lint failure", Time: began.Add(20 * time.Second)}
	lines <- logLine{Msg: "step done", Step: "archive", Next: "waiting", Found: "for a review", Time: began.Add(21 * time.Second)}
	if _, err := newShow(&out).follow(context.Background(), lines); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "r-1  1.0 s\n") || !strings.Contains(got, "fix-sum  20.0 s\n") || !strings.Contains(got, "✗ checks     test, lint failure") {
		t.Error(got)
	}
}

// TestShowTellsWhatLasts has a line on a terminal while a step goes on, which the next one replaces, and none in a pipe.
func TestShowTellsWhatLasts(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{true, false} {
		var out bytes.Buffer
		s := &show{w: &out, live: live}
		s.meanwhile("verify", time.Second)
		s.meanwhile("archive", time.Second) // takes no time
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
		s.meanwhile("execute", 11*time.Second)
		s.meanwhile("execute", 12*time.Second)
		if spoken := strings.Count(out.String(), "the agent works"); !live && spoken != 1 {
			t.Errorf("a pipe is told %d times what takes long", spoken)
		}
		if strings.Contains(got, "the checks run") != live || strings.Contains(got, "\x1b[K") != live {
			t.Errorf("live %v: %q", live, got)
		}
	}
}
