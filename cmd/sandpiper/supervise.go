package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// newSuperviseCommand is the process that a sandbox's manager starts for a detached command. It outlives the bot, and is
// hidden because nobody calls it by hand.
func newSuperviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise STATE ID NAME",
		Hidden: true,
		Args:   exactArgs(3, "a state directory, a sandbox and the name of a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(append(os.Environ(), "SANDPIPER_STATE_DIR="+args[0]))
			if err != nil {
				return errors.Join(errors.New("settings of the supervisor"), err)
			}
			_, manager, err := app.OpenSandboxes(c, nil, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			if err != nil {
				return err
			}
			return sandbox.Supervise(cmd.Context(), manager, sandbox.ID(args[1]), args[2])
		},
	}
}
