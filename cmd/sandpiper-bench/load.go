package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// mostCalls is what docs/architecture.md says that a mission costs at GitHub at most, what waiting adds apart.
const (
	mostCalls = 20
	waitCalls = 4 // told that it waits, twice more where it is, and that the sandbox takes its time
)

// perRepository is how many deliveries come of one repository: an issue is opened and talked about, labelled, the delivery of
// that comes four times, and what the bot does comes back.
const perRepository = 10

type loadOptions struct {
	deliveries   int
	dir, tool    string
	docs         string
	installation int // repositories in one
	deadline     time.Duration
}

// load has a real bot take thousands of deliveries of hundreds of repositories, and holds the missions that come of it against
// what was asked for.
func load(ctx context.Context, args []string) error {
	var o loadOptions
	f := flag.NewFlagSet("sandpiper-bench load", flag.ContinueOnError)
	f.IntVar(&o.deliveries, "deliveries", 1000, "deliveries; a tenth as many repositories")
	f.StringVar(&o.dir, "dir", "", "directory for everything (default: that of temporary files)")
	f.StringVar(&o.tool, "tool", "bin/sandpiper", "the bot")
	f.StringVar(&o.docs, "docs", "", "directory with performance.md, which the figures go to (default: none)")
	f.IntVar(&o.installation, "installation", 50, "repositories in one installation")
	f.DurationVar(&o.deadline, "deadline", 0, "time for all of it (default: a minute and 3 seconds for each repository)")
	if err := f.Parse(args); err != nil {
		return err
	}
	repositories := max(o.deliveries/perRepository, 1)
	if o.deadline == 0 {
		o.deadline = time.Minute + time.Duration(repositories)*3*time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.deadline, fmt.Errorf("not done after %v", o.deadline))
	defer cancel()
	work, err := os.MkdirTemp(o.dir, "sandpiper-load-")
	if err != nil {
		return err
	}
	defer removeAll(work)
	if err := os.Chmod(work, 0o711); err != nil { // sandboxes of users of their own pass through it
		return err
	}
	w, err := newCrowd(work, repositories, o.installation)
	if err != nil {
		return err
	}
	defer w.close()
	b, err := startBot(ctx, o.tool, work, w)
	if err != nil {
		return err
	}
	defer b.stop()
	said, err := w.run(ctx, b)
	if err != nil {
		return errors.Join(err, fmt.Errorf("the end of the bot's log:\n%s", b.tail()))
	}
	peak := b.peakMemory()
	b.stop()
	result := w.judge(ctx, filepath.Join(work, "state", "sandpiper.db"), said, peak)
	fmt.Print(result.text())
	if o.docs != "" {
		if err := writeSection(filepath.Join(o.docs, "performance.md"), "load", result.page()); err != nil {
			return err
		}
	}
	return result.err()
}

// outcome is what came of it.
type outcome struct {
	repositories, deliveries int
	took                     time.Duration
	calls                    []int // of each mission, sorted
	peak                     int64 // bytes
	wrong                    []string
}

// judge compares what the bot's database and GitHub say with what was asked for.
func (w *crowd) judge(ctx context.Context, database string, took time.Duration, peak int64) outcome {
	o := outcome{repositories: len(w.repositories), deliveries: int(w.delivered.Load()), took: took, peak: peak}
	missions := map[string][]string{}
	s, err := store.Open(ctx, database)
	if err != nil {
		o.wrong = append(o.wrong, err.Error())
		return o
	}
	defer s.Close()
	all, err := s.Missions(ctx, false, 10*len(w.repositories))
	if err != nil {
		o.wrong = append(o.wrong, err.Error())
	}
	for _, m := range all {
		name := m.Owner + "/" + m.Name
		missions[name] = append(missions[name], m.Outcome)
	}
	for _, name := range w.repositories {
		calls := w.callsOf(name)
		o.calls = append(o.calls, calls)
		switch got := missions[name]; {
		case len(got) != 1 || got[0] != noChange:
			o.wrong = append(o.wrong, fmt.Sprintf("%s: missions %q, want one with %q", name, got, noChange))
		case calls > mostCalls+waitCalls:
			o.wrong = append(o.wrong, fmt.Sprintf("%s: %d calls, want at most %d and %d for waiting", name, calls, mostCalls, waitCalls))
		}
		if n := w.comments(ctx, name); n != 1 {
			o.wrong = append(o.wrong, fmt.Sprintf("%s: %d comments of the bot, want 1", name, n))
		}
	}
	slices.Sort(o.calls)
	return o
}

func (o outcome) text() string {
	return fmt.Sprintf("%d deliveries for %d repositories: %d wrong, %v (%.1f missions a second)\ncalls of a mission: median %d, most %d\nmost memory of the bot: %d MiB\n",
		o.deliveries, o.repositories, len(o.wrong), o.took.Round(time.Millisecond), float64(o.repositories)/o.took.Seconds(),
		o.calls[len(o.calls)/2], o.calls[len(o.calls)-1], o.peak>>20)
}

func (o outcome) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## What many missions at once cost\n\nMeasured %s on %s.\n\n    make load LOAD=%d\n\n", time.Now().UTC().Format(time.DateOnly), machine(), o.repositories*perRepository)
	fmt.Fprintf(&b, "starts a bot and a stand-in for GitHub as processes, has an issue labelled in each of %d repositories at once, and ends when each has its one\n"+
		"mission, with an agent that changes nothing. The delivery of the label comes four times. It fails when a mission is missing, is there twice, or\ncosts more calls than [architecture.md](architecture.md#what-a-mission-costs-at-github) says.\n\n", o.repositories)
	b.WriteString("The bot reads 512 deliveries at a time, works on 16 and on 100 steps, and remembers 16 MiB of GitHub's answers, so that its memory does not\n" +
		"grow with deliveries or missions. What grows with the repositories that it visits within an hour are their tokens: about 30 KB each, by which they\n" +
		"are taken out of what it posts.\n\n")
	b.WriteString("| what | measured |\n| --- | --- |\n")
	for _, row := range [][2]string{
		{"deliveries, for repositories", fmt.Sprintf("%d, %d", o.deliveries, o.repositories)},
		{"missions that are missing, doubled, or cost too much", fmt.Sprint(len(o.wrong))},
		{"time", fmt.Sprintf("%v, %.1f missions a second", o.took.Round(time.Second), float64(o.repositories)/o.took.Seconds())},
		{"calls of a mission, tokens apart", fmt.Sprintf("median %d, most %d", o.calls[len(o.calls)/2], o.calls[len(o.calls)-1])},
		{"most resident memory of the bot", fmt.Sprintf("%d MiB", o.peak>>20)},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	return b.String()
}

func (o outcome) err() error {
	if len(o.wrong) == 0 {
		return nil
	}
	shown := o.wrong[:min(len(o.wrong), 20)]
	return fmt.Errorf("%d wrong:\n%s", len(o.wrong), strings.Join(shown, "\n"))
}

// progress says on a terminal, or in a log, how far it is, each time another tenth is done.
type progress struct {
	out       io.Writer
	all, done int
}

func (p *progress) add() {
	before := p.done * 10 / p.all
	if p.done++; p.done*10/p.all > before {
		fmt.Fprintf(p.out, "%d of %d missions have ended\n", p.done, p.all)
	}
}
