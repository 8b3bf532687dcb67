package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// newSuperviseCommand is what the manager starts for each command that has to outlive the bot: it keeps the log and the exit
// status on disk. People have no use for it.
func newSuperviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise STATE ID NAME",
		Short:  "Supervise one command of a sandbox (called by sandpiper itself)",
		Hidden: true,
		Args:   exactArgs(3, "a state directory, the id of a sandbox and the name of a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := openSandboxes(append(os.Environ(), "SANDPIPER_STATE_DIR="+args[0]))
			if err != nil {
				return err
			}
			return sandboxError(sandbox.Supervise(cmd.Context(), s.Manager, sandbox.ID(args[1]), args[2]))
		},
	}
}
