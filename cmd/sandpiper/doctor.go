package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/setup"
)

const doctorHelp = `Say what this machine and its settings can do, and what to do about what is not right.

Every setting is shown with its value and where that comes from, never with that of a secret. Then git, the sandbox, the
state directory and the database are tried, and GitHub is asked about the App: its key, its installations and what they
grant, its webhook and the last deliveries. Without an App only the sandbox part is made. Nothing is changed.

Exit status: 0 nothing failed, 1 something did, 2 the command was called wrongly.`

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine and its settings can do, and what to mend",
		Long:  doctorHelp,
		Args:  exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, problems := config.Load(os.Environ())
			doctor := &setup.Doctor{Config: c, Problems: problems, Manifest: sandpiper.AppManifest}
			report := doctor.Examine(cmd.Context())
			out := cmd.OutOrStdout()
			write := func() error { return report.WriteText(out, isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "") }
			if asJSON {
				write = func() error { return report.WriteJSON(out) }
			}
			if err := write(); err != nil {
				return err
			}
			if !report.OK() {
				return exitError{code: 1} // the report has said why
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}
