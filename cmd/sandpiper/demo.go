package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	gh "github.com/google/go-github/v60/github"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/fixtures/agents"
	"github.com/sandpiper-bot/sandpiper/fixtures/repos"
)

const demoHelp = `Watch the whole way of an issue to a pull request, on this machine alone.

A GitHub of its own and the bot are started as two processes on loopback. An issue is opened in a small Go repository
whose test fails, and labelled; a script stands in for the coding agent. Each step is shown as it happens. Everything
is in a temporary directory that goes at the end, also after Ctrl-C; --stay keeps both processes up until then. What a demo
that was killed has left is removed by the next one.

It needs git and bubblewrap, and Go for the repository's checks.`

const (
	demoTitle = "Sum returns 0 for a single number"
	demoBody  = "`Sum(7)` gives 0. I expected 7, as the documentation of `Sum` says.\n\nThe test that fails is `TestSum`.\n"
)

func newDemoCommand() *cobra.Command {
	var stay bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch an issue become a pull request, on a GitHub of its own",
		Long:  demoHelp,
		Args:  exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), cmd.OutOrStdout(), stay)
		},
	}
	cmd.AddCommand(newEscapeCommand())
	cmd.Flags().BoolVar(&stay, "stay", false, "keep the pages and the bot up until Ctrl-C")
	return cmd
}

func demo(ctx context.Context, out io.Writer, stay bool) error {
	ctx, stop := whileRead(ctx)
	defer stop()
	left(removeKilledDemos())
	dir, err := stageDir(demoPrefix)
	if err != nil {
		return err
	}
	defer func() { left(os.RemoveAll(dir)) }()
	held, err := holdDir(dir)
	if err != nil {
		return err
	}
	defer held.Close()
	seed := filepath.Join(dir, "calc")
	if err := repos.Write(repos.Calc, seed); err != nil {
		return err
	}
	agent, err := agents.Write(agents.FixSum, dir)
	if err != nil {
		return err
	}
	s, err := setStage(ctx, dir, stageOptions{
		repo: "acme/calc", seed: seed, doubleAddr: "127.0.0.1:7080", botAddr: "127.0.0.1:7081", env: []string{"SANDPIPER_AGENT=" + agent},
	})
	defer func() {
		s.close()
		left(s.endSandboxes())
	}()
	if ctx.Err() != nil {
		return stopped("nothing was tried")
	}
	if err != nil {
		return err
	}
	view := newShow(out)
	view.say("a GitHub of its own on %s · the bot on %s · state in %s", s.double.URL, s.botURL, dir)
	last, err := s.play(ctx, view, "acme", "calc", issueText{demoTitle, demoBody})
	if ctx.Err() != nil {
		return stopped("the mission had not ended")
	}
	if err != nil {
		return fmt.Errorf("%w; the log of the bot:\n%s", err, tailOf(filepath.Join(dir, "bot.log"), 4000))
	}
	if last.Pull == 0 {
		return errors.New("the mission ended without a pull request")
	}
	if !stay {
		view.say("\nlook     %s demo --stay keeps both up, with the page of the pull request", os.Args[0])
		view.say("your own %s try --repo . --task task.md --agent ./agent.sh", os.Args[0])
		return nil
	}
	s.tellPages(view, last.Pull)
	<-ctx.Done()
	return nil
}

// tellPages says what a person can do with a stage that stays.
func (s *stage) tellPages(view *show, pull int) {
	view.say("\nlook     %s/acme/calc/pull/%d", s.double.URL, pull)
	view.say("issue    %s/acme/calc/issues/1", s.double.URL)
	view.say("say      curl -H 'Authorization: Bearer %s' %s/repos/acme/calc/issues/1/comments -d '{\"body\": \"/sandpiper help\"}'", s.double.Tokens["octavia"], s.double.URL)
	view.say("         that was octavia; as rita, a colleague: %s; as walt, who may only read: %s", s.double.Tokens["rita"], s.double.Tokens["walt"])
	view.say("inside   SANDPIPER_STATE_DIR=%s %s sandbox list --all", filepath.Join(s.dir, "state"), os.Args[0])
	view.say("your own %s try --repo . --task task.md --agent ./agent.sh", os.Args[0])
	view.say("\nboth stay up; Ctrl-C ends them")
}

const demoPrefix = "sandpiper-demo-"

// holdDir is a lock on a directory, which goes with this process.
func holdDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeKilledDemos ends what demos of this user have left running, and removes their directories, where they were killed and could not.
func removeKilledDemos() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), demoPrefix+"*"))
	for _, dir := range dirs {
		var stat unix.Stat_t
		// One that has no state yet may not have its lock yet.
		if unix.Lstat(dir, &stat) != nil || int(stat.Uid) != os.Geteuid() || !exists(filepath.Join(dir, "state")) {
			continue
		}
		held, heldErr := holdDir(dir)
		if heldErr != nil {
			continue // at work
		}
		err = errors.Join(err, (&stage{dir: dir}).endSandboxes(), os.RemoveAll(dir))
		held.Close()
	}
	return err
}

// stageDir makes the directory of a stage. Sandboxes of a user of their own, which they have when we are root, must be able to
// pass through it.
func stageDir(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

type issueText struct{ title, body string }

// play opens the issue as octavia, labels it, and shows what follows until a person has the next move.
func (s *stage) play(ctx context.Context, view *show, owner, repo string, text issueText) (logLine, error) {
	client, err := s.as("octavia")
	if err != nil {
		return logLine{}, err
	}
	issue, _, err := client.Issues.Create(ctx, owner, repo, &gh.IssueRequest{Title: &text.title, Body: &text.body})
	if err != nil {
		return logLine{}, fmt.Errorf("open the issue: %w", err)
	}
	if _, _, err := client.Issues.AddLabelsToIssue(ctx, owner, repo, issue.GetNumber(), []string{"sandpiper"}); err != nil {
		return logLine{}, fmt.Errorf("label the issue: %w", err)
	}
	view.say("\nissue #%d %q, labelled sandpiper by octavia (write)", issue.GetNumber(), text.title)
	last, err := view.follow(ctx, s.lines)
	if err != nil || last.Pull == 0 {
		return last, err
	}
	return last, view.result(ctx, client, owner, repo, last.Pull)
}
