// Command sandpiper is a self-hosted GitHub App that lets coding agents work on issues in a sandbox.
//
// It is one binary: the bot (serve), the sandbox command line (sandbox), and what is needed around them. Each subcommand
// stands in a file of its own. It must not decide anything that a package below could decide.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run is the one place that turns errors into exit statuses.
func run(args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	asks := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		asks = append(asks, syscall.SIGHUP) // the terminal is gone
	}
	signal.Notify(signals, asks...)
	go func() { // The first signal asks, the second one does not.
		<-signals
		cancel()
		again := <-signals
		signal.Reset(asks...)
		_ = syscall.Kill(os.Getpid(), again.(syscall.Signal)) // our own process is there
	}()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	cancel()
	if err == nil {
		return 0
	}
	var exit exitError
	if !errors.As(err, &exit) {
		exit = exitError{code: 1, err: err}
	}
	if exit.err != nil {
		fmt.Fprintln(os.Stderr, "sandpiper:", exit.err)
	}
	return exit.code
}
