package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/reaper"
)

const reapHelp = `Remove the sandboxes that nobody came back for, and what killed processes left behind.

A sandbox is discarded when nothing has happened in it for longer than --older-than, nothing runs in it and nobody has asked to keep
it. Everything in it is recorded in the store first; one that can not be recorded stays, and the reason is said. The bot does
the same on a timer; to run both at once, or this twice, does no harm.

Exit status: 0 done, 1 something went wrong with at least one sandbox, 2 the command was called wrongly.`

func newReapCommand() *cobra.Command {
	var dryRun, maintain bool
	var olderThan time.Duration
	cmd := &cobra.Command{
		Use:     "reap",
		Short:   "Remove sandboxes that nobody came back for",
		Long:    reapHelp,
		Example: "  sandpiper reap --dry-run\n  sandpiper reap --older-than 72h",
		Args:    exactArgs(0, "no arguments"),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	cmd.Flags().DurationVar(&olderThan, "older-than", 0, "how long nothing must have happened (default: SANDPIPER_RETENTION)")
	cmd.Flags().BoolVar(&maintain, "maintain", false, "also pack all stores anew, and prune what nothing has led to for two weeks")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := openRecorded(os.Environ())
		if err != nil {
			return err
		}
		defer s.journal.close()
		if olderThan <= 0 {
			olderThan = s.config.Retention
		}
		o := reaper.Options{Manager: s.Manager, MaxAge: olderThan, DryRun: dryRun}
		if maintain {
			o.Care = reaper.Now
		}
		report, err := reap(cmd.Context(), o)
		write := writeReport
		if *asJSON {
			write = func(w io.Writer, r reaper.Report, _ bool) error { return writeJSON(w, r) }
		}
		return errors.Join(err, write(cmd.OutOrStdout(), report, dryRun))
	}
	return cmd
}

// reap also removes the control groups of runs whose process was killed.
func reap(ctx context.Context, o reaper.Options) (reaper.Report, error) {
	report, err := reaper.Reap(ctx, o)
	if o.DryRun {
		return report, err
	}
	groups, sweepErr := jail.Sweep(ctx)
	report.Removed = append(report.Removed, groups...)
	return report, errors.Join(err, sweepErr)
}

func writeReport(w io.Writer, r reaper.Report, dryRun bool) error {
	would := ""
	if dryRun {
		would = "would be "
	}
	for _, id := range r.Discarded {
		fmt.Fprintf(w, "%sdiscarded %s\n", would, id)
	}
	for _, id := range r.Forgotten {
		fmt.Fprintf(w, "%sforgotten %s\n", would, id)
	}
	for _, what := range r.Removed {
		fmt.Fprintf(w, "%sremoved %s\n", would, name(what))
	}
	for _, id := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(w, "stays %s: %s\n", name(id), name(r.Skipped[id]))
	}
	for _, c := range r.Stores {
		fmt.Fprintf(w, "maintained store %s: %d packs and %d single objects, %d KiB before, %d KiB now; %d objects removed, %d wait\n",
			c.Store, c.Packs, c.Loose, c.Before>>10, c.After>>10, c.Pruned, c.Waiting)
	}
	return nil
}
