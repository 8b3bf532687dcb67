package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
)

const execHelp = `Run a command in a sandbox, connected to the standard input, output and error of this one.

The command begins in the root of the checkout. Its environment is empty but for HOME, PATH and a few more, and what --env adds. It
has no terminal, and no network but to the hosts that --net names. When it ends, everything that it has started ends; when this process is ended, so is the command.

Exit status: that of the command, 128+n when signal n ended it;
  124  it took more time than it may
  125  sandpiper itself failed, or there is no such sandbox
  126  the command cannot be executed
  127  there is no such command
  137  it was ended because it passed another limit: the message says which`

func newSandboxExec() *cobra.Command {
	var c sandbox.Command
	cmd := &cobra.Command{
		Use:   "exec ID [flags] -- CMD [ARG…]",
		Short: "Run a command in a sandbox",
		Long:  execHelp,
		Example: "  sandpiper sandbox exec r-abc-1 -- go test ./...\n" +
			"  sandpiper sandbox exec r-abc-1 --dir web --timeout 5m -- npm test\n" +
			"  sandpiper sandbox exec r-abc-1 -- sh <script.sh",
		Args: commandArgs,
	}
	commandFlags(cmd, &c)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openRecorded(os.Environ())
		if err != nil {
			return exitError{125, err}
		}
		defer s.journal.close()
		c.Argv = args[1:]
		s.way(sandbox.ID(args[0]), c)
		exit, err := s.Run(cmd.Context(), sandbox.ID(args[0]), c, sandbox.Stdio{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()})
		if err != nil {
			return exitError{125, sandboxError(err)}
		}
		if len(exit.Blocked) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "sandpiper: blocked %s; --net opens a host\n", strings.Join(exit.Blocked, ", "))
		}
		return exitOf(c.Argv[0], exit)
	}
	return cmd
}

func commandFlags(cmd *cobra.Command, c *sandbox.Command) {
	f := cmd.Flags()
	f.StringVar(&c.Dir, "dir", "", "begin in this directory of the checkout")
	f.StringArrayVar(&c.Env, "env", nil, "NAME=VALUE for its environment; may be given several times")
	f.DurationVar(&c.Timeout, "timeout", 0, "time that it may take (default: the limit of the sandbox)")
	f.Var(&grantFlag{c}, "model", "let it ask this model endpoint (anthropic, openai, gemini) at $SANDPIPER_MODEL_<NAME>_URL, with the key outside, and fetch origin; may be given several times")
	f.StringArrayVar(&c.Network, "net", nil, "let it reach this `HOST` (with :port, or *. in front), or a group: "+strings.Join(egress.Groups(), ", ")+"; may be given several times")
}

// grantFlag adds endpoints of the broker to what a command may use.
type grantFlag struct{ command *sandbox.Command }

func (g *grantFlag) Set(name string) error {
	if g.command.Broker == nil {
		g.command.Broker = &sandbox.Grant{Git: true}
	}
	g.command.Broker.Models = append(g.command.Broker.Models, name)
	g.command.Env = append(g.command.Env, "SANDPIPER_MODEL_"+strings.ToUpper(name)+"_URL="+broker.Endpoint(name))
	return nil
}

func (g *grantFlag) String() string { return "" }
func (g *grantFlag) Type() string   { return "NAME" }

// exitOf ends as the command did, and says what its status alone does not.
func exitOf(command string, exit sandbox.Exit) error {
	why := string(exit.Reason)
	if exit.Message != "" {
		why += ": " + escape(exit.Message, "")
	}
	switch exit.Reason {
	case sandbox.Exited, sandbox.Signaled:
		if exit.Code == 0 {
			return nil
		}
		return exitError{code: exit.Code}
	case sandbox.TimedOut:
		return exitError{124, fmt.Errorf("%s was ended: %s after %s", name(command), why, exit.Ended.Sub(exit.Started).Round(100*time.Millisecond))}
	case sandbox.NotBegun:
		code := exit.Code
		if code != 126 && code != 127 {
			code = 125
		}
		return exitError{code, fmt.Errorf("%s: %s", name(command), why)}
	case sandbox.HostFull:
		return exitError{125, fmt.Errorf("%s: %s; make room: discard or reap sandboxes, or remove files in them; 'sandpiper doctor' names the state directory", name(command), why)}
	case sandbox.Lost:
		return exitError{125, fmt.Errorf("%s: %s", name(command), why)}
	default:
		return exitError{137, fmt.Errorf("%s was ended: %s", name(command), why)}
	}
}

const checkHelp = `Run a command in a sandbox as a check: by a supervisor of its own, with its log kept in the sandbox's record.

The log is shown at the end. A check has a name; a second call with the same name and command does not run it again but gives the
same result, also after this process was killed.

Exit status: as that of 'sandpiper sandbox exec'.`

func newSandboxCheck() *cobra.Command {
	var c sandbox.Command
	var label string
	cmd := &cobra.Command{
		Use:     "check ID [flags] -- CMD [ARG…]",
		Short:   "Run a command as a check and keep its log",
		Long:    checkHelp,
		Example: "  sandpiper sandbox check r-abc-1 --name test -- go test ./...",
		Args:    commandArgs,
	}
	commandFlags(cmd, &c)
	cmd.Flags().StringVar(&label, "name", "", "name of the check (default: a new one)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openRecorded(os.Environ())
		if err != nil {
			return exitError{125, err}
		}
		defer s.journal.close()
		c.Argv = args[1:]
		if label == "" {
			label = "check-" + strings.ToLower(rand.Text()[:8])
		}
		s.way(sandbox.ID(args[0]), c)
		res, err := s.runCheck(cmd.Context(), sandbox.ID(args[0]), label, c)
		if err != nil {
			return exitError{125, sandboxError(err)}
		}
		if *asJSON {
			err = writeJSON(cmd.OutOrStdout(), res)
		} else {
			fmt.Fprintf(cmd.ErrOrStderr(), "check %s: %s, status %d\n", name(label), res.Exit.Reason, res.Exit.Code)
			err = showLog(cmd.OutOrStdout(), res.Log, false)
		}
		if err != nil {
			return exitError{125, err}
		}
		return exitOf(c.Argv[0], res.Exit)
	}
	return cmd
}

// runCheck stops the check when this process is told to end: nobody would come back for it.
func (s *sandboxes) runCheck(ctx context.Context, id sandbox.ID, label string, c sandbox.Command) (sandbox.CheckResult, error) {
	res, err := s.RunCheck(ctx, id, label, c)
	if ctx.Err() != nil {
		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx), id, label))
	}
	if rec, recErr := s.Record(id); recErr == nil { // its supervisor has found them, and tells nobody
		s.journal.note(sandbox.Event{Run: id, Kind: "findings", Findings: rec.Findings})
	}
	return res, err
}

func newSandboxLog() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "log ID NAME",
		Short: "Show the log of a check or of the agent",
		Long: "Show what a command that ran by a supervisor has written so far: a check by its name, the agent as 'agent'.\n" +
			"The exit status is 3 when there is no such sandbox or command.",
		Example: "  sandpiper sandbox log r-abc-1 agent",
		Args:    exactArgs(2, "the id of a sandbox and the name of a command"),
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "as it was written, with control characters")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openSandboxes(os.Environ())
		if err != nil {
			return err
		}
		id := sandbox.ID(args[0])
		if _, _, err := s.Poll(cmd.Context(), id, args[1]); err != nil {
			return sandboxError(err)
		}
		return showLog(cmd.OutOrStdout(), s.Log(id, args[1]), raw)
	}
	return cmd
}

func showLog(w io.Writer, path string, raw bool) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has not begun
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return writeText(w, raw, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}
