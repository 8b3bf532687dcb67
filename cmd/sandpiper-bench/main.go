// Command sandpiper-bench measures what workspaces cost beside the git command line, and writes the figures down. As
// `sandpiper-bench schemes` it ranks ways to isolate tasks; as `sandpiper-bench load` it has a bot take many missions at once,
// and fails when one is missing or costs more than it may; as `sandpiper-bench intake` it holds the taking of webhooks against
// a bare log and probot.
//
// All rows of all sizes run in turn, round after round, in one process on one directory: machines are noisy and file systems differ by
// ten times, so that only ratios between rows of the same round mean something. It must not be pointed at a repository
// that matters: it makes its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

type options struct {
	dir    string // where everything is made
	tool   string // the sandpiper command line
	docs   string // where the report goes; empty: nowhere
	sizes  []int
	rounds int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sandpiper-bench:", err)
		os.Exit(1)
	}
}

// run does one of the comparisons; without a name that of workspaces.
func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "schemes":
		return schemes(ctx, args[1:])
	case len(args) > 0 && args[0] == "boundary":
		return boundary(ctx, args[1:])
	case len(args) > 0 && args[0] == "load":
		return load(ctx, args[1:])
	case len(args) > 0 && args[0] == "intake":
		return intake(ctx, args[1:])
	case len(args) == 3 && args[0] == "intake-server": // a process of intake's
		return serveRival(ctx, args[1], args[2])
	}
	return workspaces(ctx, args)
}

func workspaces(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.dir, "sandpiper-bench-")
	if err != nil {
		return err
	}
	defer removeAll(work)
	if _, err := os.Stat(o.tool); err != nil {
		return fmt.Errorf("the command line to measure: %w; make build makes it", err)
	}
	all, err := measureAll(ctx, o, work)
	if err != nil {
		return err
	}
	text := report(all, judge(all), o.rounds)
	fmt.Println(text)
	if o.docs == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(o.docs, "performance.svg"), []byte(plot(all)), 0o644); err != nil {
		return err
	}
	return writeSection(filepath.Join(o.docs, "performance.md"), "workspaces", text)
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("sandpiper-bench", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", "", "directory on the file system to measure (default: that of temporary files)")
	f.StringVar(&o.docs, "docs", "", "directory that performance.md and performance.svg are written to (default: none)")
	f.StringVar(&o.tool, "tool", "bin/sandpiper", "the command line to measure")
	sizes := f.String("sizes", "1000,10000", "sizes of the repositories, in files; 100000 takes some minutes and 2 GB")
	f.IntVar(&o.rounds, "rounds", 5, "rounds")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for word := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 100 {
			return o, fmt.Errorf("size %q: not a number of at least 100", word)
		}
		o.sizes = append(o.sizes, n)
	}
	return o, nil
}

// removeAll also takes what the kernel has made with mode 000 for overlays.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
