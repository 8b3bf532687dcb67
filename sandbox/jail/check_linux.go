package jail

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// Check finds out by doing what this machine can enforce: it runs small commands in the jail, each of which tries to break one
// limit, and looks at how they ended. It takes about a second. The error wraps ErrUnavailable and says why nothing can be
// confined here at all.
func Check(ctx context.Context) (Report, error) {
	dir, err := os.MkdirTemp("", "sandpiper-check-")
	if err != nil {
		return Report{}, fmt.Errorf("check: %w", err)
	}
	defer os.RemoveAll(dir)
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, DefaultUID, DefaultUID); err != nil {
			return Report{}, fmt.Errorf("check: %w", err)
		}
	}
	c := &checker{ctx: ctx, dir: dir}
	out, res, err := c.sh(Limits{}, `cat /proc/self/status; echo "uid $(id -u)"; ls /sys /root 2>&1 | head -n 1; wc -l </proc/net/dev; cat /proc/1/environ 2>&1 | wc -c
echo x >/usr/sandpiper-check 2>/dev/null && echo WROTE; unshare -Ur true 2>/dev/null && echo NAMESPACE`)
	if err != nil {
		return Report{}, err
	}
	if res.Reason != Exited {
		return Report{}, fmt.Errorf("%w: a harmless command ended with %s", ErrUnavailable, res.Reason)
	}
	has := func(line string) bool { return strings.Contains("\n"+out, "\n"+line) }
	c.add("namespaces", !has("WROTE") && !has("NAMESPACE") && has("CapEff:\t0000000000000000"), "bubblewrap",
		"no capability, a read-only system, no new namespace")
	c.add("seccomp", has("Seccomp:\t2") && has("NoNewPrivs:\t1"), "seccomp filter", "a filter and no_new_privs are in force")
	c.add("user", has(fmt.Sprintf("uid %d", identity(0))) && !has("uid 0\n"), "setuid and user namespace", fmt.Sprintf("commands run as user %d", identity(0)))
	return c.report, c.limits()
}

type checker struct {
	ctx    context.Context
	dir    string
	report Report
}

func (c *checker) add(name string, ok bool, how, detail string) {
	c.report.Items = append(c.report.Items, Item{name, ok, how, detail})
}

func (c *checker) sh(l Limits, script string) (string, Result, error) {
	var out bytes.Buffer
	if l.Wall == 0 {
		l.Wall = 20 * time.Second
	}
	res, err := Run(c.ctx, Spec{Name: "check", Argv: []string{"sh", "-c", script}, Workspace: c.dir, Limits: l}, Stdio{Out: &out, Err: &out})
	return out.String(), res, err
}

// limits tries to use more than is allowed of each thing.
func (c *checker) limits() error {
	const mib = 1 << 20
	counted := newGroup("check", Limits{}.withDefaults())
	defer func() { _ = counted.remove() }()
	how := func(dir, without string) string {
		if dir != "" {
			return "control group"
		}
		return without
	}
	tries := []struct {
		name, how, script string
		limits            Limits
		held              func(out string, r Result) bool
	}{
		{"processes", how(counted.pids, "RLIMIT_NPROC"), `i=0; while [ $i -lt 40 ]; do sleep 1 & i=$((i+1)); done; echo ALL`, Limits{Procs: 16},
			func(out string, r Result) bool { return !strings.Contains(out, "ALL") }},
		{"memory", how(counted.memory, "watched, and RLIMIT_DATA"), `dd if=/dev/zero of=/dev/null bs=192M count=2 && sleep 1 && echo ALL`, Limits{Memory: 64 * mib},
			func(out string, r Result) bool { return !strings.Contains(out, "ALL") }},
		{"disk", "watched, and RLIMIT_FSIZE", `for i in 1 2 3 4; do head -c 8M /dev/zero >f$i || exit; sleep 0.2; done; echo ALL`, Limits{Disk: 16 * mib},
			func(out string, r Result) bool { return r.Reason == TooMuchDisk }},
	}
	for _, t := range tries {
		out, res, err := c.sh(t.limits, t.script)
		if err != nil {
			return fmt.Errorf("check of %s: %w", t.name, err)
		}
		c.add(t.name, t.held(out, res), t.how, fmt.Sprintf("an attempt to use more ended with %s, status %d", res.Reason, res.Code))
	}
	return nil
}
