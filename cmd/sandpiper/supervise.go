package main

import (
	"os"
	"slices"
	"strings"

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
			handed, err := sandbox.HandedOver()
			if err != nil {
				return err
			}
			// Keys go from the pipe into the settings. Only what libraries read from the environment goes there.
			for _, kv := range handed {
				if name, value, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "SANDPIPER_") {
					os.Setenv(name, value)
				}
			}
			s, err := openSandboxes(slices.Concat(os.Environ(), handed, []string{"SANDPIPER_STATE_DIR=" + args[0]}))
			if err != nil {
				return err
			}
			return sandboxError(sandbox.Supervise(cmd.Context(), s.Manager, sandbox.ID(args[1]), args[2]))
		},
	}
}
