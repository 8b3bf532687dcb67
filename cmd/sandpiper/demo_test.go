package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDemoThatIsStoppedLeavesNothing: who presses Ctrl-C in the middle gets back at once, and no command, mount or file stays.
func TestDemoThatIsStoppedLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := stateParent(t)
	var said bytes.Buffer
	cmd := exec.Command(program, "demo")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "TMPDIR="+dir), &said, &said
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	awaited := func(what string, holds func() bool) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(2 * time.Minute); !holds(); <-tick.C {
			if time.Now().After(deadline) {
				_ = cmd.Process.Kill()
				<-ended
				t.Fatalf("never: %s\n%s", what, said.String())
			}
		}
	}
	supervised := func() bool {
		for _, line := range processesOf(dir) {
			if strings.Contains(line, " supervise ") {
				return true
			}
		}
		return false
	}
	awaited("a command runs in a sandbox", supervised)
	must(t, cmd.Process.Signal(syscall.SIGINT))
	awaited("the demo ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(said.String(), "stopped") || strings.Contains(said.String(), "not cleaned up") {
		t.Errorf("exit status %d:\n%s", code, said.String())
	}
	if left := must1(os.ReadDir(dir))(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	awaited("no process is left", func() bool { return len(processesOf(dir)) == 0 })
	if mounts := must1(os.ReadFile("/proc/self/mountinfo"))(t); bytes.Contains(mounts, []byte(dir)) {
		t.Errorf("a mount is left:\n%s", mounts)
	}
}
