package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

const oneID = "the id of a sandbox"

func newSandboxPath() *cobra.Command {
	var delta bool
	cmd := &cobra.Command{
		Use:   "path ID",
		Short: "Print where the files of a sandbox lie",
		Long: "Print the directory in which a person can look at the files of a sandbox. By the backend overlay they lie in layers:\n" +
			"it is then a read-only copy of them as they are now; 'sandpiper sandbox shell' opens a shell among them.\n\n" +
			"Look, but run nothing there that reads configuration from the directory it is in: git, editors and build tools do, and\n" +
			"a command in the sandbox may have written it.",
		Args: exactArgs(1, oneID),
	}
	cmd.Flags().BoolVar(&delta, "delta", false, "where new and changed files lie, if that is another place")
	asJSON := jsonFlag(cmd)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		var path string
		var err error
		if delta {
			path, err = s.Delta(id)
		} else {
			path, err = s.Materialise(ctx, id)
		}
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(cmd.OutOrStdout(), map[string]string{"path": path})
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
		return err
	})
	return cmd
}

func newSandboxStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status ID",
		Short: "Print the state of a sandbox",
		Long: "Print the state of a sandbox: created, running, dirty, verified, promoted or discarded.\n" +
			"--json prints all that is known of it: base, limits, findings.",
		Args: exactArgs(1, oneID),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		state, err := s.Status(id)
		if err != nil {
			return err
		}
		if !*asJSON {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), state)
			return err
		}
		rec, err := s.Record(id)
		if err != nil {
			return err
		}
		return writeJSON(cmd.OutOrStdout(), rec)
	})
	return cmd
}

func newSandboxChanges() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "changes ID",
		Short: "List what differs from the base",
		Long: "List the files that differ from the base, with the lines that were added and removed ('bin' for binary files).\n" +
			"The files are first collected into a commit in the store, as data: no configuration, filter, hook or link in them acts.\n" +
			"In --json, path_base64 has the bytes of a name that is not UTF-8.",
		Args: exactArgs(1, oneID),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		changes, err := s.ListChanges(ctx, id)
		if err != nil {
			return err
		}
		if err := sayNotTaken(cmd.ErrOrStderr(), s, id); err != nil {
			return err
		}
		if *asJSON {
			return writeChangesJSON(cmd.OutOrStdout(), changes)
		}
		return writeChanges(cmd.OutOrStdout(), changes)
	})
	return cmd
}

func writeChangesJSON(w io.Writer, changes []sandbox.Change) error {
	return writeJSON(w, append([]sandbox.Change{}, changes...)) // a list, also when it is empty
}

func writeChanges(w io.Writer, changes []sandbox.Change) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range changes {
		path := name(c.Path)
		if c.From != "" {
			path = name(c.From) + " -> " + path
		}
		lines := fmt.Sprintf("+%d -%d", c.Added, c.Removed)
		if c.Added < 0 {
			lines = "bin"
		}
		mode := ""
		if c.OldMode != c.NewMode && c.Kind != sandbox.Added && c.Kind != sandbox.Deleted || c.Kind == sandbox.Added && c.NewMode != "100644" {
			mode = "  (mode " + c.NewMode + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s%s\n", c.Kind, lines, path, mode)
	}
	return t.Flush()
}

// sayNotTaken says in one line what lies in a sandbox and is not among its changes: what git cannot hold, or should not.
func sayNotTaken(w io.Writer, s *sandboxes, id sandbox.ID) error {
	rec, err := s.Record(id)
	if err != nil {
		return err
	}
	var left []string
	for _, f := range rec.Findings {
		switch f.Kind {
		case "collect.special", "collect.name", "collect.limit", "git.nested", "git.submodule":
			left = append(left, name(f.Evidence)+" ("+f.Kind+")")
		}
	}
	if len(left) == 0 {
		return nil
	}
	more := ""
	if shown := 5; len(left) > shown {
		left, more = left[:shown], fmt.Sprintf(" and %d more", len(left)-shown)
	}
	_, err = fmt.Fprintf(w, "not taken: %s%s; 'sandpiper sandbox status --json %s' has all\n", strings.Join(left, ", "), more, id)
	return err
}

func newSandboxDiff() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "diff ID",
		Short: "Show what differs from the base as a diff",
		Long: "Show what differs from the base as a diff. Control characters and invisible ones in it are escaped, and hunks have\n" +
			"the numbers by which 'sandpiper sandbox promote' takes them; --raw gives the exact bytes, for 'git apply'.",
		Example: "  sandpiper sandbox diff r-abc-1\n  sandpiper sandbox diff --raw r-abc-1 | git apply",
		Args:    exactArgs(1, oneID),
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "the exact bytes, for git apply")
	asJSON := jsonFlag(cmd)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) (err error) {
		if *asJSON {
			commit, err := s.CollectDiff(ctx, id)
			if err != nil {
				return err
			}
			if err := sayNotTaken(cmd.ErrOrStderr(), s, id); err != nil {
				return err
			}
			rec, err := s.Record(id)
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), map[string]string{"base": rec.Source.Base, "result": commit,
				"ref": sandbox.Ref(id, "result"), "store": s.stores.Dir(rec.Source.Key)})
		}
		// After the diff, which may collect first.
		defer func() { err = errors.Join(err, sayNotTaken(cmd.ErrOrStderr(), s, id)) }()
		return writeText(cmd.OutOrStdout(), raw, func(w io.Writer) error {
			if raw {
				return s.Diff(ctx, id, w)
			}
			numbered := sandbox.NumberHunks(w)
			return errors.Join(s.Diff(ctx, id, numbered), numbered.Close())
		})
	})
	return cmd
}

func newSandboxList() *cobra.Command {
	var discarded, all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the sandboxes",
		Long: "List the sandboxes with their state, age, base and where that is from. Of discarded ones it says until when 'recover' can\n" +
			"bring them back. --json has all that is known of each.",
		Args: exactArgs(0, "no arguments"),
	}
	cmd.Flags().BoolVar(&discarded, "discarded", false, "those whose files are gone")
	cmd.Flags().BoolVar(&all, "all", false, "also those whose files are gone")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := openSandboxes(os.Environ())
		if err != nil {
			return err
		}
		of := s.List
		if discarded {
			of = s.Discarded
		}
		recs, err := of()
		if err != nil {
			return err
		}
		if all && !discarded {
			gone, err := s.Discarded()
			if err != nil {
				return err
			}
			recs = append(recs, gone...)
		}
		for i := range recs {
			if recs[i].State == sandbox.Running { // it may have ended without a word
				if recs[i].State, err = s.Status(recs[i].ID); err != nil {
					return sandboxError(err)
				}
			}
		}
		if *asJSON {
			if recs == nil {
				recs = []sandbox.Record{}
			}
			return writeJSON(cmd.OutOrStdout(), recs)
		}
		return writeList(cmd.OutOrStdout(), recs, time.Now())
	}
	return cmd
}

func writeList(w io.Writer, recs []sandbox.Record, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(recs) > 0 {
		fmt.Fprintln(t, "ID\tSTATE\tAGE\tBASE\tFROM\tREPOSITORY")
	}
	for _, r := range recs {
		state := string(r.State)
		if r.State == sandbox.Discarded {
			state += " (until " + keptUntil(r).Local().Format(time.DateOnly) + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.10s\t%s\t%s\n", r.ID, state, age(now.Sub(r.Created)), r.Source.Base, name(r.Source.From), name(r.Source.URL))
	}
	return t.Flush()
}

func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
