package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

const escapeHelp = `Watch two harmless things that an agent could do if nothing held it, and watch a sandbox hold it.

It writes a file outside of its workspace, and it calls a service with a credential that lay around. Both are done first without a
sandbox, then by the same program in one. The files are disposable, the service is this program's own, and the credential grants
nothing. Everything is in temporary directories that go at the end.

Exit status: 0 both worked without a sandbox and neither in it, 1 otherwise.`

func newEscapeCommand() *cobra.Command {
	var backend string
	cmd := &cobra.Command{Use: "escape", Short: "Watch what an agent could do unheld, and a sandbox hold it", Long: escapeHelp, Args: exactArgs(0, "no arguments, only flags")}
	cmd.Flags().StringVar(&backend, "backend", "", "what provides the sandbox (default: SANDPIPER_BACKEND)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return showEscape(cmd.Context(), cmd.OutOrStdout(), backend)
	}
	return cmd
}

func showEscape(ctx context.Context, out io.Writer, backend string) error {
	dir, err := stageDir("sandpiper-escape-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	environ := append(withoutNames(os.Environ(), "SANDPIPER_STATE_DIR", "DATABASE_URL"), "SANDPIPER_STATE_DIR="+filepath.Join(dir, "state"))
	s, err := openSandboxes(environ)
	if err != nil {
		return err
	}
	if backend == "" {
		backend = s.config.Backend
	}
	r := probe.Run(ctx, probe.Options{Sandboxes: s.Manager, Stores: s.stores, Backend: backend, StateDir: s.config.StateDir})
	tellEscape(out, r)
	if err := showRecord(ctx, out, s.config, r); err != nil {
		return err
	}
	for _, p := range r.Probes {
		if (p.Name == "marker" || p.Name == "connection") && p.Verdict != probe.Pass {
			return fmt.Errorf("probe %s: %s: %s", p.Name, p.Verdict, strings.Join(p.Why, "; "))
		}
	}
	return nil
}

func withoutNames(environ []string, names ...string) []string {
	var out []string
	for _, kv := range environ {
		keep := true
		for _, n := range names {
			keep = keep && !strings.HasPrefix(kv, n+"=")
		}
		if keep {
			out = append(out, kv)
		}
	}
	return out
}

// tellEscape is the story, told from what was observed.
func tellEscape(out io.Writer, r probe.Result) {
	say := func(mark, where, what string) { fmt.Fprintf(out, "  %s %-18s %s\n", mark, where, what) }
	verdicts := map[string]probe.Verdict{}
	for _, p := range r.Probes {
		verdicts[p.Name] = p.Verdict
	}
	mark := func(p string) string {
		if verdicts[p] == probe.Pass {
			return "✓"
		}
		return "✗"
	}
	fmt.Fprintf(out, "1. write a file outside of the workspace\n")
	say("·", "without a sandbox", "written to a directory that everybody may write: "+orNothing(seen(r, "host", "control marker")))
	outside, link := "", ""
	for _, o := range r.Observed {
		if o.Observer == "inside" && strings.HasSuffix(o.What, "/outside") {
			if strings.HasPrefix(o.What, "write by a link ") {
				link = o.Saw
			} else {
				outside = o.Saw
			}
		}
	}
	say(mark("marker"), "in a sandbox", fmt.Sprintf("the same write: %s; by a link in the workspace: %s; /usr: %s; /: %s", outside, link, seen(r, "inside", "write /usr"), seen(r, "inside", "write /")))
	say(mark("marker"), "the host sees", markersOn(r))

	fmt.Fprintf(out, "\n2. call a service with a credential that lay around\n")
	say("·", "without a sandbox", "found it in the environment and in a file, and called: "+orNothing(seen(r, "host", "control calls")))
	say(mark("connection"), "in a sandbox", "the credential: not in any environment; its file: "+like(r, "read "))
	for _, o := range r.Observed {
		if o.Observer == "inside" && (strings.HasPrefix(o.What, "connect ") || strings.HasPrefix(o.What, "proxy ")) {
			say(mark("connection"), "", o.What+": "+o.Saw)
		}
	}
	say(mark("connection"), "the host sees", callsOn(r))
	fmt.Fprintf(out, "\nbackend %s: marker %s, connection %s\n", r.Backend, verdicts["marker"], verdicts["connection"])
}

func seen(r probe.Result, observer, what string) string {
	for _, o := range r.Observed {
		if o.Observer == observer && o.What == what {
			return strings.TrimSpace(o.Saw)
		}
	}
	return ""
}

func like(r probe.Result, prefix string) string {
	for _, o := range r.Observed {
		if o.Observer == "inside" && strings.HasPrefix(o.What, prefix) {
			return o.Saw
		}
	}
	return "not tried"
}

func markersOn(r probe.Result) string {
	var out []string
	for _, o := range r.Observed {
		if o.Observer == "host" && strings.HasPrefix(o.What, "marker at ") {
			out = append(out, o.What)
		}
	}
	if len(out) == 0 {
		return "no marker anywhere outside; the one in the workspace, where it belongs"
	}
	return strings.Join(out, ", ")
}

func callsOn(r probe.Result) string {
	var out []string
	for _, o := range r.Observed {
		if o.Observer == "host" && (o.What == "call from inside" || o.What == "canary credential") {
			out = append(out, o.Saw)
		}
	}
	if len(out) == 0 {
		return "no call, and the credential did not come out"
	}
	return strings.Join(out, ", ")
}

func orNothing(s string) string {
	if s == "" {
		return "nothing, so the demonstration proves nothing"
	}
	return s
}

// showRecord puts the result on an audit record and shows that it is whole.
func showRecord(ctx context.Context, out io.Writer, c *config.Config, r probe.Result) error {
	rec, err := openRecordOf(ctx, c)
	if err != nil {
		return err
	}
	defer rec.close()
	if err := rec.audit.Append(ctx, app.ProbeEntry(r)); err != nil {
		return err
	}
	chain, err := audit.VerifyChain(ctx, rec.store)
	if err != nil {
		return err
	}
	if !chain.OK() {
		return errors.New(strings.Join(chain.Problems, "; "))
	}
	fmt.Fprintf(out, "on record: probe of run %s with %d observations, audit record %d:%.12s…\n", r.Run, len(r.Observed), chain.Head.Seq, chain.Head.Hash)
	return nil
}
