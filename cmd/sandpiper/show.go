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
	live   bool // on a terminal, where a line can be taken back
	colour bool
	told   string // in a pipe: the step of which meanwhile has spoken
}

func newShow(w io.Writer) *show {
	f, ok := w.(*os.File)
	live := ok && isTerminal(f)
	return &show{w: w, live: live, colour: live && os.Getenv("NO_COLOR") == ""}
}

func (s *show) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// meanwhile shows on a terminal what lasts, and for how long already: checks take minutes. What is printed next takes its place, so
// the line is not wrapped. In a pipe it says once what takes longer than ten seconds, so that nobody thinks that it hangs.
func (s *show) meanwhile(step string, lasts time.Duration) {
	switch {
	case doing[step] == "":
	case s.live:
		fmt.Fprintf(s.w, "\x1b[K\x1b[?7l  … %.0f s  %s\x1b[?7h\r", lasts.Seconds(), doing[step])
	case lasts > 10*time.Second && s.told != step:
		s.told = step
		fmt.Fprintf(s.w, "  … %s\n", doing[step])
	}
}

// clear takes back what meanwhile has shown.
func (s *show) clear() {
	if s.live {
		fmt.Fprint(s.w, "\x1b[K")
	}
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
	s.clear()
	fmt.Fprintf(s.w, "  %s %-10s %s%s\n", mark, name, quote.Clean(text), time)
}

func (s *show) say(format string, args ...any) { fmt.Fprintf(s.w, format+"\n", args...) }

// did gives the name of a step that is done.
var did = map[string]string{
	"take": "taken", "queue": "queued", "create": "sandbox", "execute": "agent", "inspect": "inspected", "verify": "checks", "promote": "promoted",
	"report": "reported", "archive": "waiting", "close": "ended",
}

// doing names the steps that may take long while they last.
var doing = map[string]string{
	"create": "the sandbox is being made", "execute": "the agent works", "verify": "the checks run, the first time without a build cache",
}

// follow prints the mission's steps as the bot logs them, until nothing more will happen without a person. It returns the
// last line.
func (s *show) follow(ctx context.Context, lines <-chan logLine) (logLine, error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	step, since := "", time.Now()
	var before time.Time // when the step before was done, by the log
	defer s.clear()
	for {
		select {
		case <-ctx.Done():
			return logLine{}, ctx.Err()
		case <-ticker.C:
			s.meanwhile(step, time.Since(since))
		case l, open := <-lines:
			if !open {
				return l, fmt.Errorf("the bot has ended; see its log")
			}
			if l.Msg == "step done" {
				// A step may take many goes, and the log has the time of the last one; who watches has waited for all.
				if !before.IsZero() {
					l.Took = int64(l.Time.Sub(before))
				}
				step, since, before = l.Next, time.Now(), l.Time
			}
			if s.tell(l) {
				return l, nil
			}
		}
	}
}

// tell prints one line of the bot's log, if it says how the mission goes. It says whether the next move is a person's.
func (s *show) tell(l logLine) bool {
	switch l.Msg {
	case "step done":
		if waited, err := time.ParseDuration(strings.TrimPrefix(l.Found, "waited ")); l.Step == "queue" && err == nil && waited < time.Second {
			return false // there was a place at once
		}
		if l.Step == "archive" {
			s.line("·", did[l.Step], l.Found, 0)
		} else {
			s.line(markOf(l), did[l.Step], l.Found, time.Duration(l.Took))
		}
		return l.Next == "waiting" || l.Next == "ended"
	case "step ended the work":
		s.line("✗", did[l.Step], l.Outcome+": "+l.Message, 0)
	case "step failed, will be tried again":
		s.line("…", did[l.Step], l.Error, 0)
	case "delivery handled":
		if strings.HasPrefix(l.Outcome, "refused") {
			s.line("✗", "refused", l.Outcome, 0)
			return true
		}
	}
	return false
}

func markOf(l logLine) string {
	switch {
	case l.Step == "close":
		return "·"
	case l.Step == "verify" && strings.Contains(l.Found, " failure"): // the checks have run, and one of them did not pass
		return "✗"
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
