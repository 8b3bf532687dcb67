package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
)

// call is a line of testdata/calls.txt.
type call struct {
	text            string // name(arguments)
	number          int
	arguments       string
	jail, container string // what it answers
	everybody       bool
}

// calls are those that this architecture has.
func calls(t *testing.T) []call {
	t.Helper()
	info, err := arch.GetInfo("")
	must(t, err)
	text, err := os.ReadFile("testdata/calls.txt")
	must(t, err)
	line := regexp.MustCompile(`^((\w+)\((.*)\)) +([A-Z|]+) +([A-Z|]+) *(\*?)$`)
	var out []call
	for i, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if l == "" || l[0] == '#' {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("line %d cannot be read: %q", i+1, l)
		}
		if nr, ok := info.SyscallNames[m[2]]; ok {
			out = append(out, call{m[1], nr, m[3], m[4], m[5], m[6] == "*"})
		}
	}
	return out
}

// program makes all calls, each in a process of its own, and prints what they answer.
func program(all []call) string {
	var b strings.Builder
	b.WriteString(`use strict; my ($zero, $dir, $name, $here, $node, $mark) = ("\0" x 256, "/", "tmpfs", ".", "x", "trusted.overlay.opaque");
my ($head, $all, $own) = ("\x22\x05\x08\x20\0\0\0\0", "\xff" x 24); $| = 1;` + "\n")
	for _, c := range all {
		args := strings.TrimSuffix(fmt.Sprintf("%d, %s", c.number, c.arguments), ", ")
		fmt.Fprintf(&b, "if (!fork) { $own = $$; my $r = syscall(%s); exit($r == -1 ? $!+0 : 0) } wait; print $?, \"\\n\";\n", args)
	}
	return b.String()
}

// answers reads what the program has printed.
func answers(t *testing.T, printed string, all []call) []string {
	t.Helper()
	lines := strings.Fields(printed)
	if len(lines) != len(all) {
		t.Fatalf("%d answers to %d calls:\n%s", len(lines), len(all), printed)
	}
	var out []string
	for _, l := range lines {
		status, err := strconv.Atoi(l)
		must(t, err)
		switch {
		case status&0x7f != 0:
			out = append(out, "signal "+strconv.Itoa(status&0x7f))
		case status == 0:
			out = append(out, "OK")
		default:
			out = append(out, unix.ErrnoName(unix.Errno(status>>8)))
		}
	}
	return out
}

// TestCalls makes system calls inside and compares the answers with a table; and without a sandbox, to see that they tell anything.
func TestCalls(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not installed")
	}
	all := calls(t)
	for _, backend := range []string{"worktree", "overlay", "container"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			var want, got []string
			for i, answer := range answers(t, inside(t, backend, program(all)), all) {
				expected := all[i].jail
				if backend == "container" {
					expected = all[i].container
				}
				want = append(want, all[i].text+" "+expected)
				if slices.Contains(strings.Split(expected, "|"), answer) {
					answer = expected
				}
				got = append(got, all[i].text+" "+answer)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("no sandbox", func(t *testing.T) {
		t.Parallel()
		free := 0
		h := newHost(t)
		for i, answer := range answers(t, outside(t, h, program(all)), all) {
			if all[i].everybody && !slices.Contains(strings.Split(all[i].jail, "|"), answer) {
				free++
			}
		}
		if free < 20 {
			t.Errorf("control: only %d of the calls are answered otherwise without a sandbox", free)
		}
	})
}

func inside(t *testing.T, backend, script string) string {
	t.Helper()
	f := open(t, backend)
	repo := sandboxtest.NewRepo(t)
	repo.Write("a.txt", "one\n")
	repo.Commit()
	id, err := f.Manager.Create(t.Context(), "m-calls", f.Source(t, repo), sandbox.Options{})
	var not *sandbox.ErrUnavailable
	if errors.As(err, &not) {
		t.Skip(not)
	}
	must(t, err)
	t.Cleanup(func() { _, _ = f.Manager.Discard(context.Background(), id) })
	var printed, failed bytes.Buffer
	c := sandbox.Command{Argv: []string{"perl"}, Timeout: time.Minute}
	exit, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{In: strings.NewReader(script), Out: &printed, Err: &failed})
	if err != nil || !exit.OK() {
		t.Fatalf("%v, %+v\n%s", err, exit, failed.String())
	}
	return printed.String()
}

func outside(t *testing.T, h *host, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "perl")
	cmd.Dir, cmd.SysProcAttr, cmd.Stdin = h.out, asAgent(), strings.NewReader(script)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
