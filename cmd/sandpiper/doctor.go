package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper"
	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/setup"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

const doctorHelp = `Say what this machine and its settings can do, and what to do about what is not right.

Every setting is shown with its value and where that comes from, never with that of a secret. Then git, the sandbox, the
state directory and the database are tried, and GitHub is asked about the App: its key, its installations and what they
grant, its webhook and the last deliveries. Without an App only the sandbox part is made. Nothing is changed.

Exit status: 0 nothing failed, 1 something did, 2 the command was called wrongly.`

// probeBeside probes a backend in a directory that is gone afterwards, on the file system of the state, on which it depends what
// backends can do.
func probeBeside(ctx context.Context, c config.Config, backend string) probe.Result {
	failed := func(err error) probe.Result {
		why := []string{"it could not be tried: " + err.Error()}
		return probe.Result{Backend: backend, Verdict: probe.Inconclusive, Probes: []probe.Outcome{{Name: "marker", Verdict: probe.Inconclusive, Why: why}}}
	}
	parent := c.StateDir
	for _, err := os.Stat(parent); err != nil && parent != "/"; _, err = os.Stat(parent) {
		parent = filepath.Dir(parent)
	}
	dir, err := os.MkdirTemp(parent, ".doctor-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		return failed(err)
	}
	c.StateDir = dir
	stores, manager, err := app.OpenSandboxes(&c, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return failed(err)
	}
	return probe.Run(ctx, probe.Options{Sandboxes: manager, Stores: stores, Backend: backend, StateDir: dir})
}

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine and its settings can do, and what to mend",
		Long:  doctorHelp,
		Args:  exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, problems := config.Load(os.Environ())
			if problems == nil {
				problems = app.CheckSettings(c)
			}
			doctor := &setup.Doctor{Config: c, Problems: problems, Manifest: sandpiper.AppManifest}
			doctor.Probe = func(ctx context.Context, backend string) probe.Result { return probeBeside(ctx, *c, backend) }
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
