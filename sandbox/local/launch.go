package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// Place is where a command of a run finds its files: what differs between the backends.
type Place struct {
	Backend string
	Mounts  []jail.Mount // the workspace, the git directory, what lies over them
	Home    string
	Used    *jail.Usage // what the writable directories held when they were made
	System  []string
	UID     int
	Egress  egress.Options // see Options of the backends
	Broker  *broker.Broker // nil: a command that has a grant is refused
	Now     func() time.Time
	Confine Confine // nil: jail.Run
}

// Confine runs what a command is turned into, and returns after the last process of it is dead.
type Confine func(context.Context, jail.Spec, jail.Stdio) (jail.Result, error)

// Launch runs a command in the jail and returns after the last process of it is dead.
func Launch(ctx context.Context, w sandbox.Workspace, p Place, c sandbox.Command, stdio sandbox.Stdio) (sandbox.Exit, []sandbox.Finding, error) {
	now := p.Now().UTC()
	spec, err := p.spec(w, c)
	if err != nil {
		return sandbox.Exit{}, nil, err
	}
	guard, err := layCanary(w.Dir, p.UID)
	if err != nil {
		return sandbox.Exit{}, nil, fmt.Errorf("sandbox %s: %w", w.ID, err)
	}
	out, err := p.openWay(w, c)
	if err != nil {
		return sandbox.Exit{}, nil, fmt.Errorf("network of sandbox %s: %w", w.ID, err)
	}
	if out != nil {
		spec.Env = append(out.env, spec.Env...)
	}
	desk, err := p.openDesk(w, c)
	if err != nil {
		out.close()
		return sandbox.Exit{}, nil, fmt.Errorf("broker of sandbox %s: %w", w.ID, err)
	}
	spec.Listen = listen(desk, out)
	var in io.Reader = stdio.In
	if c.Stdin != "" {
		in = strings.NewReader(c.Stdin)
	}
	confine := p.Confine
	if confine == nil {
		confine = jail.Run
	}
	res, err := confine(ctx, spec, jail.Stdio{In: in, Out: stdio.Out, Err: stdio.Err})
	out.close()
	spent, refused := closeDesk(desk)
	var not *jail.NotStarted
	switch {
	case errors.As(err, &not):
		return sandbox.Exit{Code: not.Code, Reason: sandbox.NotBegun, Message: not.Reason, Started: now, Ended: p.Now().UTC()}, nil, nil
	case errors.Is(err, jail.ErrUnavailable):
		return sandbox.Exit{}, nil, &sandbox.ErrUnavailable{Backend: p.Backend, Reason: err.Error()}
	case err != nil:
		return sandbox.Exit{}, nil, fmt.Errorf("launch in sandbox %s: %w", w.ID, err)
	}
	exit := exitOf(res)
	exit.Blocked, exit.Spent = out.blocked(), spent
	return exit, slices.Concat(findings(w, p.Now().UTC(), res), guard.findings(w.ID, p.Now()), out.findings(w.ID, p.Now()), refused), nil
}

func (p Place) spec(w sandbox.Workspace, c sandbox.Command) (jail.Spec, error) {
	if c.Dir != "" && !filepath.IsLocal(c.Dir) {
		return jail.Spec{}, fmt.Errorf("directory %q of the command is not below the workspace", c.Dir)
	}
	s := jail.Spec{
		Name: string(w.ID), Argv: c.Argv, Dir: path.Join(jail.WorkspaceDir, c.Dir), Env: append(p.searchPath(), c.Env...),
		Home: p.Home, System: p.System, Hostname: "sandpiper", UID: p.UID, Used: p.Used, Mounts: p.Mounts,
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

// searchPath puts the bin directories of further system paths on the search path: what is installed below a prefix, such as a
// toolchain in /opt, is there to be called.
func (p Place) searchPath() []string {
	dirs := jail.Path
	for _, dir := range p.System {
		bin := filepath.Join(dir, "bin")
		if info, err := os.Stat(bin); err == nil && info.IsDir() {
			dirs += ":" + bin
		}
	}
	if dirs == jail.Path {
		return nil
	}
	return []string{"PATH=" + dirs}
}

var reasons = map[jail.Reason]sandbox.Reason{
	jail.Exited:        sandbox.Exited,
	jail.Signaled:      sandbox.Signaled,
	jail.TimedOut:      sandbox.TimedOut,
	jail.TooMuchOutput: sandbox.Flooded,
	jail.TooMuchDisk:   sandbox.Overfull,
	jail.TooManyFiles:  sandbox.Overfull,
	jail.HostDiskLow:   sandbox.HostFull,
	jail.OutOfMemory:   sandbox.OutOfMem,
	jail.Cancelled:     sandbox.Cancelled,
	jail.FailedToStart: sandbox.NotBegun,
}

func exitOf(r jail.Result) sandbox.Exit {
	e := sandbox.Exit{Code: r.Code, Reason: reasons[r.Reason], Started: r.Started.UTC(), Ended: r.Ended.UTC(),
		Output: r.OutputBytes, Truncated: r.Truncated, Message: r.Signal, Watched: r.Watched}
	if r.Reason == jail.TooManyFiles {
		e.Message = "too many files"
	}
	for _, o := range r.Observations {
		if r.Reason == jail.HostDiskLow && o.Kind == "res."+string(jail.HostDiskLow) {
			e.Message = o.Evidence
		}
	}
	if e.Code < 0 { // ended by us, by SIGKILL: said as a shell says it
		e.Code = 128 + 9
	}
	return e
}

func findings(w sandbox.Workspace, now time.Time, r jail.Result) []sandbox.Finding {
	var out []sandbox.Finding
	for _, o := range r.Observations {
		outcome, severity := "contained", "low"
		if o.Kind == "proc.survivor" {
			outcome, severity = "inconclusive", "high"
		}
		out = append(out, sandbox.Finding{Run: w.ID, Time: now, Kind: o.Kind, Severity: severity, Observer: o.Observer,
			Evidence: o.Evidence, Outcome: outcome})
	}
	return out
}
