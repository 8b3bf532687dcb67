package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

const findingsHelp = `Show and export findings: what was seen of the boundary of runs.

A finding says what happened, who saw it (the host, the kernel, or what a sandbox claims) and what came of it: contained, a breach, or
inconclusive, which is dealt with as a breach. No findings means that nothing was seen of what is looked for.`

func newFindingsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "findings", Short: "Show and export what was seen of the boundary", Long: findingsHelp, Args: exactArgs(0, "one of its subcommands"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{Use: "list [RUN]", Short: "List findings, the oldest first", Args: cobra.MaximumNArgs(1)}
	asJSON := jsonFlag(list)
	findingsCommand(list, func(cmd *cobra.Command, found []sandbox.Finding) error {
		if *asJSON {
			return writeJSON(cmd.OutOrStdout(), append([]sandbox.Finding{}, found...)) // none is [], not null
		}
		if len(found) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "no findings")
		}
		t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		for _, f := range found {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Time.Format(time.RFC3339), f.Run, f.Kind, f.Severity, f.Outcome, f.Observer, name(f.Evidence))
		}
		return t.Flush()
	})
	export := &cobra.Command{Use: "export [RUN]", Short: "Write findings as JSON lines of OCSF", Args: cobra.MaximumNArgs(1),
		Long: "Write findings as JSON lines, each a Detection Finding (class 2004) of the Open Cybersecurity Schema Framework 1.3."}
	findingsCommand(export, func(cmd *cobra.Command, found []sandbox.Finding) error {
		lines := json.NewEncoder(cmd.OutOrStdout())
		for _, f := range found {
			if err := lines.Encode(audit.OCSF(f)); err != nil {
				return err
			}
		}
		return nil
	})
	cmd.AddCommand(list, export)
	return cmd
}

// findingsCommand gives a command the findings of a run, or of all since a time: from the bot's database, and of sandboxes that
// people made by hand from their records.
func findingsCommand(cmd *cobra.Command, show func(*cobra.Command, []sandbox.Finding) error) {
	var since time.Duration
	cmd.Flags().DurationVar(&since, "since", 7*24*time.Hour, "how far back, if no run is named")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := findingsOf(cmd.Context(), args, time.Now().Add(-since))
		if err != nil {
			return err
		}
		return show(cmd, found)
	}
}

func findingsOf(ctx context.Context, args []string, since time.Time) ([]sandbox.Finding, error) {
	r, err := openRecord(ctx, os.Environ())
	if err != nil {
		return nil, err
	}
	defer r.close()
	if len(args) == 0 {
		return r.store.FindingsSince(ctx, since)
	}
	found, err := r.store.Findings(ctx, args[0])
	if err != nil || len(found) > 0 {
		return found, err
	}
	s, err := openSandboxes(os.Environ())
	if err != nil {
		return nil, err
	}
	rec, err := s.Record(sandbox.ID(args[0]))
	return rec.Findings, sandboxError(err)
}
