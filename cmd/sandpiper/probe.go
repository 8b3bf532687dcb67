package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

const probeHelp = `Try whether the boundary of sandboxes holds, now, on this machine.

A file is written to a disposable path outside the workspace, and a test endpoint is called with a canary credential that grants
nothing: inside a sandbox, through the launcher that runs use, and outside of any sandbox, where both have to work. What counts is
what this program sees on the host. Around that the kernel's surface and the limits are tried, by which the tier of the
backend is known: colleague (a mistake is contained) or outsider (an adversary is). The result goes to the audit record.

PASS: it holds. BREACH: something was seen outside. INCONCLUSIVE: something was not seen that has to be; it counts as a breach.

Exit status: 0 PASS, 1 anything else, 2 the command was called wrongly.`

func newProbeCommand() *cobra.Command {
	var backend string
	var verbose bool
	cmd := &cobra.Command{Use: "probe", Short: "Try whether the boundary of sandboxes holds", Long: probeHelp, Args: exactArgs(0, "no arguments, only flags")}
	asJSON := jsonFlag(cmd)
	cmd.Flags().StringVar(&backend, "backend", "", "which (default: SANDPIPER_BACKEND)")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show everything that was observed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		s, err := openSandboxes(os.Environ())
		if err != nil {
			return err
		}
		rec, err := openRecordOf(ctx, s.config)
		if err != nil {
			return err
		}
		defer rec.close()
		if backend == "" {
			backend = s.config.Backend
		}
		r := probe.Run(ctx, probe.Options{Sandboxes: s.Manager, Stores: s.stores, Backend: backend, StateDir: s.config.StateDir})
		if err := rec.audit.Append(ctx, app.ProbeEntry(r)); err != nil {
			return err
		}
		if *asJSON {
			err = writeJSON(cmd.OutOrStdout(), r)
		} else {
			err = writeProbe(cmd.OutOrStdout(), r, verbose)
		}
		if err == nil && !r.OK() {
			err = exitError{code: 1}
		}
		return err
	}
	return cmd
}

func writeProbe(w io.Writer, r probe.Result, verbose bool) error {
	fmt.Fprintf(w, "%s: %s", r.Backend, r.Verdict)
	if r.Tier != "" {
		fmt.Fprintf(w, ", tier %s", r.Tier)
	}
	fmt.Fprintf(w, ", took %s\n", r.Took.Round(10*time.Millisecond))
	for _, p := range r.Probes {
		fmt.Fprintf(w, "  %-12s %s\n", p.Name, p.Verdict)
		for _, why := range p.Why {
			fmt.Fprintf(w, "    %s\n", name(why))
		}
	}
	for _, why := range r.Lowered {
		fmt.Fprintf(w, "  not outsider: %s\n", name(why))
	}
	if !verbose {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, o := range r.Observed {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", o.Observer, name(o.What), name(o.Saw))
	}
	return t.Flush()
}
