package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

const shellHelp = `Open a shell in a sandbox, to look around and to try things, also while a command runs in it.

The shell sees what commands of the sandbox see, and is held by the same boundary: what you change is part of what is collected. It
has a terminal of its own inside, if util-linux (script) is installed; without a terminal here it reads a script.`

func newSandboxShell() *cobra.Command {
	var c sandbox.Command
	cmd := &cobra.Command{Use: "shell ID", Short: "Open a shell in a sandbox", Long: shellHelp, Args: exactArgs(1, oneID)}
	commandFlags(cmd, &c)
	cmd.RunE = withSandbox(func(ctx context.Context, cmd *cobra.Command, s *sandboxes, id sandbox.ID) error {
		stdio := sandbox.Stdio{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
		c.Argv = []string{"sh"}
		if in, ok := stdio.In.(*os.File); ok && isTerminal(in) {
			restore, err := makeRaw(in)
			if err != nil {
				return err
			}
			defer restore()
			c.Argv = shellCommand(in, os.Getenv("TERM"))
		}
		s.way(id, c)
		exit, err := s.Run(ctx, id, c, stdio)
		if err != nil {
			return exitError{125, err}
		}
		return exitOf("shell", exit)
	})
	return cmd
}

// shellCommand gives a shell a terminal of the size of ours. It is made inside: one of the host could be taken over from there.
func shellCommand(terminal *os.File, kind string) []string {
	rows, cols := uint16(24), uint16(80)
	if size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 && size.Col > 0 {
		rows, cols = size.Row, size.Col
	}
	if kind == "" {
		kind = "dumb"
	}
	inside := fmt.Sprintf("stty rows %d cols %d; s=$(command -v bash || echo sh); exec $s -i", rows, cols)
	return []string{"sh", "-c", `export TERM="$1"; command -v script >/dev/null && exec script -q -e -c "$2" /dev/null; exec sh -i`, "sh", kind, inside}
}

// makeRaw lets every key through to the terminal inside.
func makeRaw(f *os.File) (restore func(), err error) {
	old, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	raw := *old
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, old) }, nil
}
