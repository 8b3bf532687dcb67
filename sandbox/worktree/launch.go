package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// Launch runs a command in the jail and returns after the last process of it is dead.
func (b *Backend) Launch(ctx context.Context, w sandbox.Workspace, c sandbox.Command, stdio sandbox.Stdio) (sandbox.Exit, []sandbox.Finding, error) {
	now := b.o.Now().UTC()
	spec, err := b.spec(w, c)
	if err != nil {
		return sandbox.Exit{}, nil, err
	}
	out, err := b.openWay(w, c)
	if err != nil {
		return sandbox.Exit{}, nil, fmt.Errorf("network of sandbox %s: %w", w.ID, err)
	}
	if out != nil {
		spec.Listen, spec.Env = out.proxy.Serve, append(out.env, spec.Env...)
	}
	var in io.Reader = stdio.In
	if c.Stdin != "" {
		in = strings.NewReader(c.Stdin)
	}
	res, err := jail.Run(ctx, spec, jail.Stdio{In: in, Out: stdio.Out, Err: stdio.Err})
	err = errors.Join(err, out.close())
	var not *jail.NotStarted
	switch {
	case errors.As(err, &not):
		return sandbox.Exit{Code: not.Code, Reason: sandbox.NotBegun, Message: not.Reason, Started: now, Ended: b.o.Now().UTC()}, nil, nil
	case errors.Is(err, jail.ErrUnavailable):
		return sandbox.Exit{}, nil, &sandbox.ErrUnavailable{Backend: b.Name(), Reason: err.Error()}
	case err != nil:
		return sandbox.Exit{}, nil, fmt.Errorf("launch in sandbox %s: %w", w.ID, err)
	}
	exit := exitOf(res)
	exit.Blocked = out.blocked()
	return exit, append(b.findings(w, res), out.findings(w.ID, b.o.Now())...), nil
}

func (b *Backend) spec(w sandbox.Workspace, c sandbox.Command) (jail.Spec, error) {
	if c.Dir != "" && !filepath.IsLocal(c.Dir) {
		return jail.Spec{}, fmt.Errorf("directory %q of the command is not below the workspace", c.Dir)
	}
	var usage jail.Usage
	if err := durable.ReadJSON(filepath.Join(w.Dir, used), &usage); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return jail.Spec{}, err
	}
	s := jail.Spec{
		Name: string(w.ID), Argv: c.Argv, Dir: path.Join(jail.WorkspaceDir, c.Dir), Env: c.Env,
		Workspace: b.Path(w), Home: filepath.Join(w.Dir, home), System: b.o.System, Hostname: "sandpiper", UID: b.o.UID, Used: &usage,
		Mounts: []jail.Mount{
			{Host: filepath.Join(w.Dir, gitDir), Inside: inGit, Writable: true},
			{Host: filepath.Join(w.Store, "objects"), Inside: inObjects},
			{Host: filepath.Join(w.Dir, gitFile), Inside: path.Join(jail.WorkspaceDir, ".git")},
		},
		Limits: jail.Limits{Procs: w.Limits.Procs, Memory: w.Limits.Memory, Disk: w.Limits.Disk, Output: w.Limits.Output,
			Files: w.Limits.Files, Wall: w.Limits.Wall},
	}
	for _, bind := range c.Binds {
		s.Mounts = append(s.Mounts, jail.Mount{Host: bind.Host, Inside: bind.Inside})
	}
	if c.Timeout > 0 {
		s.Limits.Wall = c.Timeout
	}
	if c.Output > 0 {
		s.Limits.Output = c.Output
	}
	return s, nil
}

var reasons = map[jail.Reason]sandbox.Reason{
	jail.Exited:        sandbox.Exited,
	jail.Signaled:      sandbox.Signaled,
	jail.TimedOut:      sandbox.TimedOut,
	jail.TooMuchOutput: sandbox.Flooded,
	jail.TooMuchDisk:   sandbox.Overfull,
	jail.TooManyFiles:  sandbox.Overfull,
	jail.OutOfMemory:   sandbox.OutOfMem,
	jail.Cancelled:     sandbox.Cancelled,
	jail.FailedToStart: sandbox.NotBegun,
}

func exitOf(r jail.Result) sandbox.Exit {
	e := sandbox.Exit{Code: r.Code, Reason: reasons[r.Reason], Started: r.Started.UTC(), Ended: r.Ended.UTC(),
		Output: r.OutputBytes, Truncated: r.Truncated, Message: r.Signal}
	if r.Reason == jail.TooManyFiles {
		e.Message = "too many files"
	}
	if e.Code < 0 { // ended by us, by SIGKILL: said as a shell says it
		e.Code = 128 + 9
	}
	return e
}

func (b *Backend) findings(w sandbox.Workspace, r jail.Result) []sandbox.Finding {
	var out []sandbox.Finding
	for _, o := range r.Observations {
		outcome, severity := "contained", "low"
		if o.Kind == "proc.survivor" {
			outcome, severity = "inconclusive", "high"
		}
		out = append(out, sandbox.Finding{Run: w.ID, Time: b.o.Now().UTC(), Kind: o.Kind, Severity: severity, Observer: "host",
			Evidence: o.Evidence, Outcome: outcome})
	}
	return out
}
