package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// playing is a demo in which a command runs in a sandbox.
type playing struct {
	t     *testing.T
	dir   string // its temporary directory
	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan struct{}
}

func startDemo(t *testing.T, dir string) *playing {
	t.Helper()
	return startDemoInto(t, dir, nil)
}

func startDemoInto(t *testing.T, dir string, out *os.File) *playing {
	t.Helper()
	r := &playing{t: t, dir: dir, cmd: exec.Command(program, "demo"), ended: make(chan struct{})}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = append(os.Environ(), "TMPDIR="+dir), &r.said, &r.said
	if out != nil {
		r.cmd.Stdout = out
	}
	before := processesOf(dir)
	// Under nohup the tests ignore SIGHUP, and so would the demo. What is handled here is as usual there (execve(2)).
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	defer signal.Stop(handled)
	must(t, r.cmd.Start())
	go func() { defer close(r.ended); _ = r.cmd.Wait() }()
	r.awaited("a command runs in a sandbox", func() bool {
		for _, line := range processesOf(dir) {
			pid, what, _ := strings.Cut(line, " ")
			if strings.Contains(what, " supervise ") && !strings.Contains(strings.Join(before, "\n"), pid) {
				return true
			}
		}
		return false
	})
	return r
}

func (r *playing) awaited(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			_ = r.cmd.Process.Kill()
			<-r.ended
			r.t.Fatalf("never: %s\n%s", what, r.said.String())
		}
	}
}

func (r *playing) end(s syscall.Signal) {
	r.t.Helper()
	must(r.t, r.cmd.Process.Signal(s))
	r.ends()
}

func (r *playing) ends() {
	r.t.Helper()
	r.awaited("the demo ends", func() bool {
		select {
		case <-r.ended:
			return true
		default:
			return false
		}
	})
}

// leavesNothing asks for no command, mount or file, and that stopping was no failure.
func (r *playing) leavesNothing() {
	r.t.Helper()
	if code, said := r.cmd.ProcessState.ExitCode(), r.said.String(); code != 130 || !strings.Contains(said, "stopped") || strings.Contains(said, "not cleaned up") {
		r.t.Errorf("exit status %d:\n%s", code, said)
	}
	if left := must1(os.ReadDir(r.dir))(r.t); len(left) != 0 {
		r.t.Errorf("left behind: %v", left)
	}
	r.awaited("no process is left", func() bool { return len(processesOf(r.dir)) == 0 })
	if mounts := must1(os.ReadFile("/proc/self/mountinfo"))(r.t); bytes.Contains(mounts, []byte(r.dir)) {
		r.t.Errorf("a mount is left:\n%s", mounts)
	}
}

// TestDemoThatIsStoppedLeavesNothing: who presses Ctrl-C in the middle or closes the terminal gets back at once.
func TestDemoThatIsStoppedLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			r := startDemo(t, stateParent(t))
			r.end(s)
			r.leavesNothing()
		})
	}
}

// TestDemoThatNobodyReadsLeavesNothing: its output goes into a pipe whose reader has seen enough, as head does.
func TestDemoThatNobodyReadsLeavesNothing(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	must(t, err)
	r := startDemoInto(t, stateParent(t), writer)
	writer.Close()
	reader.Close()
	r.ends()
	r.leavesNothing()
}

// TestKilledDemoIsRemovedByTheNext: its two processes end with it, and what ran in its sandbox when another demo begins.
func TestKilledDemoIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	killed := startDemo(t, stateParent(t))
	killed.end(syscall.SIGKILL)
	killed.awaited("its GitHub ends", func() bool { return !strings.Contains(strings.Join(processesOf(killed.dir), "\n"), " double ") })
	next := startDemo(t, killed.dir)
	next.end(syscall.SIGINT)
	next.leavesNothing()
}
