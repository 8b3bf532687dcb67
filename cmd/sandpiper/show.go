package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// show prints a mission's way for a person who watches: one line as each thing happens.
type show struct {
	w      io.Writer
	colour bool
}

func newShow(w io.Writer) *show {
	f, ok := w.(*os.File)
	return &show{w: w, colour: ok && isTerminal(f) && os.Getenv("NO_COLOR") == ""}
}

func (s *show) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *show) line(mark, name, text string, took time.Duration) {
	switch mark {
	case "✓":
		mark = s.paint("32", mark)
	case "✗":
		mark = s.paint("31", mark)
	}
	time := ""
	if took > 0 {
		time = s.paint("2", fmt.Sprintf("  %.1f s", took.Seconds()))
	}
	fmt.Fprintf(s.w, "  %s %-10s %s%s\n", mark, name, quote.Clean(text), time)
}

func (s *show) say(format string, args ...any) { fmt.Fprintf(s.w, format+"\n", args...) }

// did gives the name of a step that is done.
var did = map[string]string{
	"take": "taken", "queue": "queued", "create": "sandbox", "execute": "agent", "inspect": "inspected", "verify": "checks", "promote": "promoted",
	"report": "reported", "archive": "waiting", "close": "ended",
}

// follow prints the mission's steps as the bot logs them, until nothing more will happen without a person. It returns the
// last line.
func (s *show) follow(ctx context.Context, lines <-chan logLine) (logLine, error) {
	for {
		select {
		case <-ctx.Done():
			return logLine{}, ctx.Err()
		case l, open := <-lines:
			if !open {
				return l, fmt.Errorf("the bot has ended; see its log")
			}
			switch l.Msg {
			case "step done":
				if waited, err := time.ParseDuration(strings.TrimPrefix(l.Found, "waited ")); l.Step == "queue" && err == nil && waited < time.Second {
					continue // there was a place at once
				}
				if l.Step == "archive" {
					s.line("·", did[l.Step], l.Found, 0)
				} else {
					s.line(markOf(l), did[l.Step], l.Found, time.Duration(l.Took))
				}
				if l.Next == "waiting" || l.Next == "ended" {
					return l, nil
				}
			case "step ended the work":
				s.line("✗", did[l.Step], l.Outcome+": "+l.Message, 0)
			case "step failed, will be tried again":
				s.line("…", did[l.Step], l.Error, 0)
			case "delivery handled":
				if strings.HasPrefix(l.Outcome, "refused") {
					s.line("✗", "refused", l.Outcome, 0)
					return l, nil
				}
			}
		}
	}
}

func markOf(l logLine) string {
	if l.Step == "close" {
		return "·"
	}
	return "✓"
}

// result prints what a reviewer finds: the Check Runs with their annotations, and the end of the pull request's text.
func (s *show) result(ctx context.Context, client *gh.Client, owner, repo string, pull int) error {
	pr, _, err := client.PullRequests.Get(ctx, owner, repo, pull)
	if err != nil {
		return err
	}
	draft := ""
	if pr.GetDraft() {
		draft = " (draft)"
	}
	s.say("\npull request #%d%s  %s\n  %s → %s, head %.7s", pr.GetNumber(), draft, quote.Line(pr.GetTitle()), pr.GetHead().GetRef(), pr.GetBase().GetRef(), pr.GetHead().GetSHA())
	runs, _, err := client.Checks.ListCheckRunsForRef(ctx, owner, repo, pr.GetHead().GetSHA(), nil)
	if err != nil {
		return err
	}
	for _, run := range runs.CheckRuns {
		mark := "✓"
		switch run.GetConclusion() {
		case "success", "neutral":
		case "":
			mark = "·" // it waits, as the review gate does for people
		default:
			mark = "✗"
		}
		s.line(mark, "check", fmt.Sprintf("%s: %s", run.GetName(), orWaiting(run.GetConclusion())), 0)
		if run.GetOutput().GetAnnotationsCount() == 0 {
			continue
		}
		notes, _, err := client.Checks.ListCheckRunAnnotations(ctx, owner, repo, run.GetID(), nil)
		if err != nil {
			return err
		}
		for _, n := range notes {
			s.say("      %s:%d  %s: %s", quote.Line(n.GetPath()), n.GetStartLine(), n.GetAnnotationLevel(), quote.Line(n.GetMessage()))
		}
	}
	return nil
}

func orWaiting(s string) string {
	if s == "" {
		return "waiting"
	}
	return s
}
