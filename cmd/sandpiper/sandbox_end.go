package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

const promoteHelp = `Make a commit of what changed, on top of the base, and put it on a new branch of the repository.

--only and --drop choose by path: * stands for anything within a name, ** for any number of directories. Without them everything is taken.
PATH:N is one hunk of a modified text file, by the numbers that 'sandpiper sandbox diff' shows; PATH:1,4-6 are several, and
PATH:mode is the change of its mode. What is left out stays in the store and can be promoted later.

For a repository in a directory the branch is made there; its checkout, index and current branch are not touched, no hook of it is
run, and a branch that is there already and somewhere else is not moved. For an address nothing is pushed: the commit is printed,
and how to push it.`

type promotion struct {
	sel             sandbox.Selection
	branch, message string
}

func newSandboxPromote() *cobra.Command {
	var p promotion
	cmd := &cobra.Command{
		Use:   "promote ID",
		Short: "Put what changed on a new branch of the repository",
		Long:  promoteHelp,
		Example: "  sandpiper sandbox promote r-abc-1\n" +
			"  sandpiper sandbox promote r-abc-1 --only 'src/**' --drop '**/*.log' --branch fix/sum --message 'Fix the sum'\n" +
			"  sandpiper sandbox promote r-abc-1 --only sum.go:1,3 --only docs",
		Args: exactArgs(1, oneID),
	}
	f := cmd.Flags()
	f.StringArrayVar(&p.sel.Only, "only", nil, "take only what this pattern matches, or these hunks of a file; may be given several times")
	f.StringArrayVar(&p.sel.Drop, "drop", nil, "leave out what this pattern matches, or these hunks of a file; may be given several times")
	f.StringVar(&p.branch, "branch", "", "the new branch (default: sandpiper/ID)")
	f.StringVar(&p.message, "message", "", "message of the commit")
	asJSON := jsonFlag(cmd)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		rec, err := s.Record(id)
		if err != nil {
			return err
		}
		if p.branch == "" {
			p.branch = "sandpiper/" + string(id)
		}
		done, err := s.promote(ctx, rec, p)
		if err != nil {
			return err
		}
		if err := sayNotTaken(cmd.ErrOrStderr(), s, id); err != nil {
			return err
		}
		local := filepath.IsAbs(rec.Source.URL)
		if *asJSON {
			out := struct {
				sandbox.Promotion
				Branch string `json:"branch,omitempty"`
				Store  string `json:"store"`
			}{done, p.branch, s.stores.Dir(rec.Source.Key)}
			if !local {
				out.Branch = ""
			}
			return writeJSON(cmd.OutOrStdout(), out)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "changes promoted: %d, left out: %d\n", len(done.Changes), len(done.LeftOut))
		if local {
			fmt.Fprintf(cmd.ErrOrStderr(), "branch %s in %s; look: git -C %s log -p %s\n", p.branch, rec.Source.URL, rec.Source.URL, p.branch)
		} else {
			fmt.Fprintf(cmd.ErrOrStderr(), "nothing was pushed; to do so: git -C %s push %s %s:refs/heads/%s\n",
				s.stores.Dir(rec.Source.Key), rec.Source.URL, done.Commit, p.branch)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), done.Commit)
		return err
	})
	return cmd
}

func (s *sandboxes) promote(ctx context.Context, rec sandbox.Record, p promotion) (sandbox.Promotion, error) {
	if p.message == "" {
		p.message = "Changes of Sandpiper run " + string(rec.ID)
	}
	// The time of the sandbox, so that the same promotion again is the same commit.
	by := sandbox.Signature{Name: "Sandpiper", Email: "sandpiper@localhost", When: rec.Created}
	spec := sandbox.CommitSpec{Author: by, Committer: by, Message: p.message + "\n\nSandpiper-Run: " + string(rec.ID) + "\n"}
	done, err := s.Promote(ctx, rec.ID, p.sel, spec, func(ctx context.Context, done sandbox.Promotion) error {
		if !filepath.IsAbs(rec.Source.URL) {
			return nil
		}
		g, err := git.New(git.Options{})
		if err != nil {
			return err
		}
		return landIn(ctx, g, rec.Source.URL, s.stores.Dir(rec.Source.Key), sandbox.Ref(rec.ID, "promoted"), done.Commit, p.branch)
	})
	var wrong *sandbox.ErrSelection
	switch {
	case errors.Is(err, sandbox.ErrNothing):
		err = exitError{4, fmt.Errorf("sandbox %s: %w", rec.ID, err)}
	case errors.As(err, &wrong):
		err = usageError(fmt.Errorf("%w; 'sandpiper sandbox diff %s' shows the hunks with their numbers", wrong, rec.ID))
	}
	return done, err
}

func newSandboxDiscard() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "discard ID",
		Short: "Record everything in a sandbox, then remove its files",
		Long: "End what runs in a sandbox, record all its files in the store (ignored ones too), then remove them. What can not be\n" +
			"recorded is not removed; there is no way to force it. The names under which things are kept are printed. Discarding\n" +
			"what is discarded does nothing.",
		Args: exactArgs(1, oneID),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		d, err := s.Discard(ctx, id)
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(cmd.OutOrStdout(), d)
		}
		for _, kept := range d.Kept {
			fmt.Fprintln(cmd.OutOrStdout(), "kept", name(kept))
		}
		for _, removed := range d.Removed {
			fmt.Fprintln(cmd.ErrOrStderr(), "removed", name(removed))
		}
		return nil
	})
	return cmd
}

func newSandboxKeep() *cobra.Command {
	var how time.Duration
	var reason string
	var end bool
	cmd := &cobra.Command{
		Use:   "keep ID",
		Short: "Make the reaper leave a sandbox alone for a while",
		Long: "Make the reaper leave a sandbox alone for a while, or with --end let it have it again. The files of one that is discarded are\n" +
			"gone; what is recorded of it is kept for that long at least, and the exit status is 4.",
		Example: "  sandpiper sandbox keep r-abc-1 --for 240h --reason 'look at the flaky test'",
		Args:    exactArgs(1, oneID),
	}
	cmd.Flags().DurationVar(&how, "for", 7*24*time.Hour, "how long")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for others")
	cmd.Flags().BoolVar(&end, "end", false, "do not keep it any longer")
	asJSON := jsonFlag(cmd)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		until := time.Now().Add(how)
		if end {
			until = time.Time{}
		} else if how <= 0 {
			return usageError(errors.New("keep: --for must be more than 0"))
		}
		if err := s.Keep(ctx, id, until, reason); err != nil {
			return err
		}
		rec, err := s.Record(id)
		if err == nil && *asJSON {
			err = writeJSON(cmd.OutOrStdout(), rec.Keep)
		}
		switch {
		case err != nil:
			return err
		case rec.Keep != nil && rec.State == sandbox.Discarded:
			return exitError{4, fmt.Errorf("sandbox %s is discarded, so its files are gone; what is recorded of it is kept until %s, and 'sandpiper sandbox recover %s' brings them back",
				id, keptUntil(rec).Local().Format(time.RFC1123), id)}
		case rec.Keep != nil && !*asJSON:
			fmt.Fprintln(cmd.ErrOrStderr(), "kept until", rec.Keep.Until.Local().Format(time.RFC1123))
		}
		return nil
	})
	return cmd
}
