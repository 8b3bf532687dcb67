package checks

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// progressEvery is how often a check that runs is shown anew: GitHub's secondary limit is on writes, and a comment that was edited
// 259 times is what people complained of (braintrustdata/eval-action#48).
const progressEvery = 15 * time.Second

// Watch shows a check while it runs.
type Watch struct {
	Every    time.Duration                                   // default 15 seconds
	Log      func(id sandbox.ID, exec string) string         // the path of a command's log
	Progress func(ctx context.Context, c Check, last string) // last is the last line of the log; must not be kept waiting for
}

// watch calls Progress now and then until the result is called, which waits for a call that is under way.
func (o Options) watch(ctx context.Context, id sandbox.ID, exec string, c Check) (stop func()) {
	if o.Watch.Progress == nil {
		return func() {}
	}
	every := o.Watch.Every
	if every == 0 {
		every = progressEvery
	}
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C: // one that comes while Progress is still at it is dropped
				o.Watch.Progress(ctx, c, lastLine(o.Watch.Log(id, exec), o.Redact))
			}
		}
	})
	return func() { cancel(); looking.Wait() }
}

// lastLine is the last line of a log with something on it; empty where there is none. A line that is not ended yet is left out: it
// may be half a secret.
func lastLine(path string, redact func(string) string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	tail := make([]byte, min(info.Size(), 8<<10))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && err != io.EOF {
		return ""
	}
	text := tidy(wholeLines(tail), redact)
	for i := len(text); i > 0; {
		start := 0
		for start = i; start > 0 && text[start-1] != '\n'; start-- {
		}
		if line := quote.Line(text[start:i]); line != "" {
			return quote.Cut(line, 160, "…")
		}
		i = start - 1
	}
	return ""
}

// Progress shows for how long a check has run and what it printed last. It is a courtesy: nothing is created or mended by it.
func (r *Reporter) Progress(ctx context.Context, gh *github.Client, t Target, key ExternalID, last string) error {
	runs, err := r.find(ctx, gh, t, key)
	if err != nil || len(runs) == 0 || runs[0].GetStatus() != "in_progress" {
		return err
	}
	title := "running"
	if at := runs[0].GetStartedAt(); !at.IsZero() {
		title = fmt.Sprintf("running for %v", r.o.Now().Sub(at.Time).Round(time.Second))
	}
	summary := "Nothing was printed yet."
	if last = r.o.Redact(last); last != "" {
		title += ", last line: " + last
		summary = "The last line that it printed:\n\n" + quote.Fence(last)
	}
	_, err = r.patch(ctx, gh, t, runs[0].GetID(), update{UpdateCheckRunOptions: github.UpdateCheckRunOptions{
		Name: RunName(key.Check), Status: github.String("in_progress"),
		Output: &github.CheckRunOutput{Title: github.String(quote.Cut(title, 255, "…")), Summary: &summary},
	}})
	return err
}
