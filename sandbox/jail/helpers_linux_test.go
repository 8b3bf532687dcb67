package jail

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needJail skips where nothing can be confined, with the reason.
func needJail(tb testing.TB) {
	tb.Helper()
	_, err := Run(tb.Context(), Spec{Argv: []string{"/bin/true"}}, Stdio{})
	if errors.Is(err, ErrUnavailable) {
		tb.Skipf("no jail on this machine: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// workspace is an empty directory that the tree may write. Root's is below one that only root may enter, as those of runs are.
func workspace(tb testing.TB) string {
	tb.Helper()
	closed := tb.TempDir()
	dir := closed + "/workspace"
	if err := os.Mkdir(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	give(tb, dir)
	if err := os.Chmod(closed, 0o700); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func give(tb testing.TB, path string) {
	tb.Helper()
	if os.Geteuid() == 0 {
		if err := os.Lchown(path, DefaultUID, DefaultUID); err != nil {
			tb.Fatal(err)
		}
	}
}

func asTree() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: DefaultUID, Gid: DefaultUID}}
}

// outcome is how a script ended, and all that it printed.
type outcome struct {
	Result
	out string
}

// try runs a shell script in the jail, without some part of it where w says so.
func try(tb testing.TB, w without, s Spec, script string) outcome {
	tb.Helper()
	var out bytes.Buffer
	if len(s.Argv) == 0 {
		s.Argv = []string{"sh", "-c", script}
	}
	s.Name = "test"
	if s.Limits.Wall == 0 {
		s.Limits.Wall = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	res, err := run(ctx, s, Stdio{Out: &out, Err: &out}, w)
	if err != nil {
		tb.Fatalf("%q: %v\n%s", script, err, out.String())
	}
	return outcome{res, out.String()}
}

func (o outcome) says(word string) bool { return strings.Contains(o.out, word) }

// eventually waits until something is so.
func eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			tb.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
	}
}

// TestMain lets the test binary be a launcher of its own: one that can be killed, that has a terminal, or that inherits things.
// JAIL_LAUNCHER names the parts to leave out.
func TestMain(m *testing.M) {
	parts, ok := os.LookupEnv("JAIL_LAUNCHER")
	if !ok {
		os.Exit(m.Run())
	}
	spec := Spec{Name: "launcher", Argv: []string{"sh", "-c", os.Args[2]}, Workspace: os.Args[1], Limits: Limits{Wall: time.Minute}}
	res, err := run(context.Background(), spec, Stdio{Out: os.Stdout, Err: os.Stderr}, without{
		parent: strings.Contains(parts, "parent"), session: strings.Contains(parts, "session"), closeFDs: strings.Contains(parts, "closeFDs"),
		environment: strings.Contains(parts, "environment"), init: strings.Contains(parts, "init"),
	})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(125)
	}
	os.Exit(max(res.Code, 0))
}

// launcher is a process that runs a script in the jail. Start it.
func launcher(tb testing.TB, leaveOut, workspace, script string) *exec.Cmd {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self, workspace, script)
	cmd.Env = append(os.Environ(), "JAIL_LAUNCHER="+leaveOut, "JAIL_CANARY=canary-4711")
	return cmd
}

// alive lists processes of the host whose command line has the word.
func alive(tb testing.TB, word string) (pids []int) {
	tb.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range names {
		text, _ := os.ReadFile(name)
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		if bytes.Contains(text, []byte(word)) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
