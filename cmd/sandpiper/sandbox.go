package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

const sandboxHelp = `Make sandboxes on repositories, run commands in them, and see and take what changed.

A sandbox is a checkout of its own, pinned to a commit. A command in it sees the checkout, the programs of this machine, and
nothing else: no network, no credential, no other process, no file outside. What it did is looked at from outside, and
nothing of it reaches your repository before 'promote'.

  id=$(sandpiper sandbox create --repo . --base HEAD)
  sandpiper sandbox exec $id -- sh -c 'echo hello >hello.txt; make test'
  sandpiper sandbox changes $id           what differs from the base
  sandpiper sandbox diff $id              the same as a diff
  sandpiper sandbox promote $id           as a commit on a new branch of the repository
  sandpiper sandbox discard $id           everything is recorded in the store, then the files go
  sandpiper sandbox recover $id           what was recorded, as files or a branch

Ids and results go to the standard output, messages to the standard error. Names and text that were made in a sandbox are shown
with control characters and invisible ones escaped.

The state lies in $SANDPIPER_STATE_DIR (default: ~/.local/state/sandpiper, /var/lib/sandpiper for root).

Exit status: 0 done, 1 it failed, 2 the command was called wrongly, 3 there is no such sandbox, 4 its state does not allow it;
'exec' and 'check' end as their command does, see there.`

func newSandboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Make sandboxes, run commands in them, see and take what changed",
		Long:  sandboxHelp,
		Args:  exactArgs(0, "one of its subcommands"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newSandboxCreate(), newSandboxExec(), newSandboxShell(), newSandboxPath(), newSandboxStatus(), newSandboxChanges(), newSandboxDiff(),
		newSandboxCheck(), newSandboxLog(), newSandboxPromote(), newSandboxDiscard(), newSandboxKeep(), newSandboxList(),
		newSandboxRecover(), newSandboxCommits(),
	)
	return cmd
}

// sandboxes are the manager and the stores of the state directory.
type sandboxes struct {
	*sandbox.Manager
	stores  *gitstore.Stores
	config  *config.Config
	journal *journal // nil: what happens is not on record
}

// openSandboxes reads the settings from environ. It needs none of those of GitHub.
func openSandboxes(environ []string) (*sandboxes, error) { return openSandboxesFor(environ, nil) }

func openSandboxesFor(environ []string, note func(sandbox.Event)) (*sandboxes, error) {
	c, err := config.Load(environ)
	if err != nil {
		return nil, usageError(err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	stores, manager, err := app.OpenSandboxes(c, nil, note, log)
	if err != nil {
		return nil, err
	}
	return &sandboxes{Manager: manager, stores: stores, config: c}, nil
}

// withSandbox is the body of the subcommands that take an id.
func withSandbox(do func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := openRecorded(os.Environ())
		if err != nil {
			return err
		}
		defer s.journal.close()
		return sandboxError(do(cmd.Context(), cmd, s, sandbox.ID(args[0])))
	}
}

// sandboxError gives errors of the manager their exit status and says what can be done.
func sandboxError(err error) error {
	var state *sandbox.ErrState
	var exit exitError
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case errors.Is(err, sandbox.ErrUnknown):
		return exitError{3, fmt.Errorf("%w; 'sandpiper sandbox list' shows what there is", err)}
	case errors.As(err, &state) && state.Is == sandbox.Discarded && state.Want == "":
		return exitError{4, fmt.Errorf("%w; 'sandpiper sandbox recover %s' brings its files back", err, state.ID)}
	case errors.As(err, &state), errors.Is(err, sandbox.ErrBusy):
		return exitError{4, err}
	}
	return err
}

func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "as JSON")
}

// commandArgs checks "ID -- CMD…".
func commandArgs(cmd *cobra.Command, args []string) error {
	if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
		return usageError(fmt.Errorf("'%s' takes the id of a sandbox, then --, then a command", cmd.CommandPath()))
	}
	return nil
}
