package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/reaper"
)

const recoverHelp = `Bring back what 'discard', or the reaper, recorded of a sandbox: all its files, ignored ones too.

--to writes them into a directory, which must be missing or empty (default: ID in the current one). Names that git does not take have
a % in front there; %.git is the git directory of the sandbox. Do not rename that and run git in it: its configuration and hooks are
what a command in the sandbox wrote. 'sandpiper sandbox commits ID' brings the commits and stashes out of it safely.

--branch makes a branch of them instead, on top of the base, in the repository that the sandbox is from (if that is a directory) or in
the one that --repo names.

What was discarded is kept for 30 days; 'sandpiper sandbox list --all' says until when.`

func newSandboxRecover() *cobra.Command {
	var to, branch, repo string
	cmd := &cobra.Command{
		Use:     "recover ID",
		Short:   "Bring back what was discarded",
		Long:    recoverHelp,
		Example: "  sandpiper sandbox recover r-abc-1 --to /tmp/abc\n  sandpiper sandbox recover r-abc-1 --branch rescue",
		Args:    exactArgs(1, oneID),
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "the directory to write the files into")
	f.StringVar(&branch, "branch", "", "a new branch to make of the files")
	f.StringVar(&repo, "repo", "", "the directory of the repository for --branch")
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		if branch != "" {
			if to != "" {
				return usageError(errors.New("recover: either --to or --branch"))
			}
			return s.recoverBranch(ctx, cmd, id, repo, branch)
		}
		if to == "" {
			to = string(id)
		}
		dir, err := filepath.Abs(to)
		if err == nil {
			err = s.Recover(ctx, id, dir)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), dir)
		return nil
	})
	return cmd
}

func (s *sandboxes) recoverBranch(ctx context.Context, cmd *cobra.Command, id sandbox.ID, repo, branch string) error {
	rec, err := s.Record(id)
	if err != nil {
		return err
	}
	if repo == "" {
		repo = rec.Source.URL
	}
	if repo, err = filepath.Abs(repo); err != nil {
		return err
	}
	commit, err := s.RecoverCommit(ctx, id)
	if err != nil {
		return err
	}
	g, err := git.New(git.Options{})
	if err != nil {
		return err
	}
	if err := landIn(ctx, g, repo, s.stores.Dir(rec.Source.Key), sandbox.Ref(id, "recovered"), commit, branch); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "branch %s in %s\n", branch, repo)
	fmt.Fprintln(cmd.OutOrStdout(), commit)
	return nil
}

const commitsHelp = `List the commits that were made in a sandbox, and bring them into the store under refs/sandpiper/ID/agent/.

They are read as data: no git runs in the git directory of the sandbox. Git checks each object first, and what it refuses is left out
and said. Authors are what the sandbox claims. Branches and stashes that are elsewhere are listed too. It works for discarded
sandboxes.`

func newSandboxCommits() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "commits ID",
		Short: "List the commits that were made in a sandbox",
		Long:  commitsHelp,
		Args:  exactArgs(1, oneID),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		h, err := s.AgentCommits(ctx, id)
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(cmd.OutOrStdout(), h)
		}
		writeHistory(cmd, h)
		return nil
	})
	return cmd
}

func writeHistory(cmd *cobra.Command, h sandbox.AgentHistory) {
	out, messages := cmd.OutOrStdout(), cmd.ErrOrStderr()
	for _, c := range h.Commits {
		subject, _, _ := strings.Cut(c.Message, "\n")
		fmt.Fprintf(out, "%.12s  %s <%s>  %s\n", c.ID, name(c.Author), name(c.Email), name(subject))
	}
	for _, t := range h.Tips {
		fmt.Fprintf(out, "%.12s  %s (as %s)\n", t.Commit, name(t.Name), t.Ref)
	}
	for _, why := range h.Refused {
		fmt.Fprintln(messages, "left out:", name(why))
	}
	if n := len(h.Differs); n > 0 && len(h.Commits) > 0 {
		fmt.Fprintf(messages, "files that differ from the newest commit: %d, the first is %s\n", n, name(h.Differs[0].Path))
	}
}

// keptUntil is when the reaper forgets what was discarded.
func keptUntil(r sandbox.Record) time.Time {
	until := r.Changed.Add(reaper.DefaultRetain)
	if r.Keep != nil && r.Keep.Until.After(until) {
		until = r.Keep.Until
	}
	return until
}
