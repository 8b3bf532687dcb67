package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

func storeBlob(t *testing.T, f Fixture, id string, w io.Writer) error {
	t.Helper()
	_, err := f.Stores.Read(t.Context(), "local-test", git.Call{Args: []string{"cat-file", "blob", id}, Stdout: w})
	return err
}

// eventually polls until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(60 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// await waits for the end of a detached command.
func await(t *testing.T, f Fixture, id sandbox.ID, name string) sandbox.Exit {
	t.Helper()
	var exit sandbox.Exit
	eventually(t, "end of "+name, func() bool {
		e, done, err := f.Manager.Poll(t.Context(), id, name)
		if err != nil {
			t.Fatal(err)
		}
		exit = e
		return done
	})
	return exit
}

func start(t *testing.T, f Fixture, id sandbox.ID, name, script string) {
	t.Helper()
	if err := f.Manager.Start(t.Context(), id, name, Shell(script)); err != nil {
		t.Fatal(err)
	}
}

func logOf(t *testing.T, f Fixture, id sandbox.ID, name string) string {
	t.Helper()
	data, err := os.ReadFile(f.Manager.Log(id, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// supervisorOf gives the process id of the supervisor of a command.
func supervisorOf(t *testing.T, f Fixture, id sandbox.ID, name string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(f.Manager.Log(id, name)), "began.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), `"pid": `)
	pid, err := strconv.Atoi(rest[:strings.IndexAny(rest, ",\n")])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// living counts the processes of the machine that have a word in their command line.
func living(t *testing.T, word string) int {
	t.Helper()
	n := 0
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if data, err := os.ReadFile(d); err == nil && bytes.Contains(data, []byte(word)) {
			n++
		}
	}
	return n
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func testStart(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	c := Shell("cat; echo out; echo ghp_" + strings.Repeat("a", 36) + "; echo err >&2; echo more >>a.txt; exit 7")
	c.Stdin = "typed\n"
	if err := f.Manager.Start(t.Context(), id, "agent", c); err != nil {
		t.Fatal(err)
	}
	exit := await(t, f, id, "agent")
	if exit.Code != 7 || exit.Reason != sandbox.Exited || exit.Started.IsZero() || exit.Ended.Before(exit.Started) {
		t.Errorf("exit: %+v", exit)
	}
	log := logOf(t, f, id, "agent")
	if !strings.HasPrefix(log, "typed\nout\n") || !strings.Contains(log, "err\n") || strings.Contains(log, "ghp_aaa") {
		t.Errorf("log: %q", log)
	}
	eventually(t, "state dirty", func() bool { s, err := f.Manager.Status(id); return err == nil && s == sandbox.Dirty })
	if _, _, err := f.Manager.Poll(t.Context(), id, "other"); !errors.Is(err, sandbox.ErrUnknown) {
		t.Errorf("Poll of what was never started: %v, want ErrUnknown", err)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if again, done, err := f.Manager.Poll(t.Context(), id, "agent"); err != nil || !done || again.Code != 7 {
		t.Errorf("Poll after the discard: %+v, %v, %v", again, done, err)
	}
	if got := logOf(t, f, id, "agent"); got != log {
		t.Errorf("log after the discard: %q", got)
	}
}

func testStartTwice(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	c := Shell("echo once >>times; sleep 0.3")
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() { errs[i] = f.Manager.Start(t.Context(), id, "agent", c) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	await(t, f, id, "agent")
	if err := f.Manager.Start(t.Context(), id, "agent", c); err != nil {
		t.Errorf("Start after the end: %v", err)
	}
	await(t, f, id, "agent")
	if got := f.Sh(t, id, "cat times"); got != "once\n" {
		t.Errorf("it ran: %q", got)
	}
	if err := f.Manager.Start(t.Context(), id, "agent", Shell("other")); err == nil {
		t.Error("another command under the same name: no error")
	}
}

func testStop(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	word := "98765.4321" + strconv.Itoa(os.Getpid())
	start(t, f, id, "agent", "trap '' TERM INT; (setsid sleep "+word+" &) ; sleep "+word)
	eventually(t, "the processes", func() bool { return living(t, word) >= 2 })
	begin := time.Now()
	if err := f.Manager.Stop(t.Context(), id, "agent"); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %v", time.Since(begin))
	if n := living(t, word); n != 0 {
		t.Errorf("%d processes live after Stop", n)
	}
	if exit := await(t, f, id, "agent"); exit.Reason != sandbox.Cancelled {
		t.Errorf("exit: %+v", exit)
	}
	if err := f.Manager.Stop(t.Context(), id, "agent"); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if err := f.Manager.Stop(t.Context(), id, "other"); !errors.Is(err, sandbox.ErrUnknown) {
		t.Errorf("Stop of what was never started: %v, want ErrUnknown", err)
	}
}

// testStopStubborn stops a command whose supervisor does not answer.
func testStopStubborn(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	word := "98768.4321" + strconv.Itoa(os.Getpid())
	start(t, f, id, "agent", "sleep "+word)
	eventually(t, "the process", func() bool { return living(t, word) > 0 })
	if err := syscall.Kill(supervisorOf(t, f, id, "agent"), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := f.Manager.Stop(t.Context(), id, "agent"); err != nil {
		t.Fatal(err)
	}
	if n := living(t, word); n != 0 {
		t.Errorf("%d processes live after Stop", n)
	}
	if exit := await(t, f, id, "agent"); exit.Reason != sandbox.Cancelled {
		t.Errorf("exit: %+v", exit)
	}
	wantState(t, f, id, sandbox.Created)
}

func testSupervisorKilled(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	word := "98766.4321" + strconv.Itoa(os.Getpid())
	start(t, f, id, "agent", "echo work >work; sleep "+word)
	eventually(t, "the process", func() bool { return living(t, word) > 0 })
	eventually(t, "the work", func() bool { p, _ := f.Manager.Delta(id); return exists(p + "/work") })
	if err := syscall.Kill(supervisorOf(t, f, id, "agent"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, f, id, "agent"); exit.Reason != sandbox.Lost {
		t.Errorf("exit: %+v", exit)
	}
	collect(t, f, id)
	if n := living(t, word); n != 0 {
		t.Errorf("%d processes live after the result was collected", n)
	}
	wantState(t, f, id, sandbox.Dirty)
	if err := f.Manager.Start(t.Context(), id, "agent", Shell("echo work >work; sleep "+word)); err != nil {
		t.Errorf("Start of the lost one: %v", err)
	}
	if exit := await(t, f, id, "agent"); exit.Reason != sandbox.Lost {
		t.Errorf("a lost command was started again: %+v", exit)
	}
	if diff := cmp.Diff([]string{"added work"}, summary(t, f, id)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func testBusy(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	start(t, f, id, "agent", "until [ -e go ]; do sleep 0.05; done")
	wantState(t, f, id, sandbox.Running)
	if _, err := f.Manager.CollectDiff(t.Context(), id); !errors.Is(err, sandbox.ErrBusy) {
		t.Errorf("CollectDiff: %v, want ErrBusy", err)
	}
	if _, err := f.Manager.Promote(t.Context(), id, sandbox.Selection{}, commitSpec(), nil); !errors.Is(err, sandbox.ErrBusy) {
		t.Errorf("Promote: %v, want ErrBusy", err)
	}
	f.Sh(t, id, "touch go") // a second command beside it
	if exit := await(t, f, id, "agent"); !exit.OK() {
		t.Errorf("exit: %+v", exit)
	}
	collect(t, f, id)
}

func testDiscardStops(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	word := "98767.4321" + strconv.Itoa(os.Getpid())
	start(t, f, id, "agent", "echo work >work; sleep "+word)
	var wg sync.WaitGroup
	wg.Go(func() {
		f.Manager.Run(context.WithoutCancel(t.Context()), id, Shell("echo other >other; sleep "+word), sandbox.Stdio{})
	})
	eventually(t, "both", func() bool { p, _ := f.Manager.Delta(id); return exists(p+"/work") && exists(p+"/other") })
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n := living(t, word); n != 0 {
		t.Errorf("%d processes live after Discard", n)
	}
	if got := f.Store(t, "show", sandbox.Ref(id, "discarded")+":work"); got != "work" {
		t.Errorf("its work: %q", got)
	}
	nothingLeft(t, f)
}

func testLogCapped(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	c := Shell("yes | head -c 300000000")
	c.Output = 1 << 20
	if err := f.Manager.Start(t.Context(), id, "agent", c); err != nil {
		t.Fatal(err)
	}
	exit := await(t, f, id, "agent")
	if exit.OK() || exit.Reason != sandbox.Flooded || !exit.Truncated {
		t.Errorf("exit: %+v", exit)
	}
	if n := len(logOf(t, f, id, "agent")); n > 1<<20+8<<10 {
		t.Errorf("the log has %d bytes", n)
	}
}

func testCannotStart(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	exit, err := f.Manager.Run(t.Context(), id, sandbox.Command{Argv: []string{"no-such-program"}}, sandbox.Stdio{})
	if err != nil || exit.Reason != sandbox.NotBegun || exit.Code != 127 {
		t.Errorf("no such program: %+v, %v", exit, err)
	}
	exit, err = f.Manager.Run(t.Context(), id, sandbox.Command{Argv: []string{"./a.txt"}}, sandbox.Stdio{})
	if err != nil || exit.Reason != sandbox.NotBegun || exit.Code != 126 {
		t.Errorf("not executable: %+v, %v", exit, err)
	}
	c := Shell("true")
	c.Network = []string{"everything"}
	if exit, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{}); err == nil {
		t.Errorf("with a network that there is not: %+v", exit)
	}
	if err := f.Manager.Start(t.Context(), id, "agent", sandbox.Command{Argv: []string{"no-such-program"}}); err != nil {
		t.Fatal(err)
	}
	if exit := await(t, f, id, "agent"); exit.Reason != sandbox.NotBegun || exit.Message == "" {
		t.Errorf("detached: %+v", exit)
	}
	odd := sandbox.Command{Argv: []string{"printf", "%s", "\xff"}} // as it is, or not at all
	var out bytes.Buffer
	if exit, err := f.Manager.Run(t.Context(), id, odd, sandbox.Stdio{Out: &out}); err != nil || out.String() != "\xff" && exit.Reason != sandbox.NotBegun {
		t.Errorf("an argument that is no UTF-8: %+v, %v, printed %q", exit, err, out.String())
	}
	if err := f.Manager.Start(t.Context(), id, "odd", odd); err == nil {
		t.Error("a detached command with an argument that is no UTF-8: no error")
	}
	c = Shell("sleep 1000")
	c.Timeout = 200 * time.Millisecond
	if exit, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{}); err != nil || exit.Reason != sandbox.TimedOut {
		t.Errorf("a command that never ends: %+v, %v", exit, err)
	}
	collect(t, f, id)
	wantState(t, f, id, sandbox.Created)
}

// testDirectory begins in a directory that is none, or leads to what whoever starts the command has open.
func testDirectory(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, `for n in $(seq 3 12); do ln -s /proc/self/fd/$n fd-$n; done; ln -s /root out`)
	for _, dir := range []string{"missing", "a.txt", "fd-3", "fd-7", "fd-8", "fd-9", "fd-12", "out"} {
		c := Shell("pwd -P; ls")
		c.Dir = dir
		var out bytes.Buffer
		exit, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{Out: &out})
		if err != nil || exit.Reason != sandbox.NotBegun || exit.Code != 126 || !strings.Contains(exit.Message, dir) {
			t.Errorf("in %s: %+v, %v; %s", dir, exit, err, out.String())
		}
	}
	if got := summary(t, f, id); len(got) != 11 { // the links, and nothing that a runtime has made
		t.Errorf("changes: %q", got)
	}
}

// testScratch writes where tools do, and executes it there.
func testScratch(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, `for d in /tmp /var/tmp "$HOME" .; do printf '#!/bin/sh\n' >$d/tool; chmod +x $d/tool; $d/tool; done; : >/dev/shm/x`)
}

func testRunCheck(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	res, err := f.Manager.RunCheck(t.Context(), id, "Unit tests / Go", Shell("echo passed; echo again >>count"))
	if err != nil || !res.Exit.OK() || res.Name != "Unit tests / Go" {
		t.Fatalf("check: %+v, %v", res, err)
	}
	log, err := os.ReadFile(res.Log)
	if err != nil || string(log) != "passed\n" {
		t.Errorf("log %s: %q, %v", res.Log, log, err)
	}
	if _, err := f.Manager.RunCheck(t.Context(), id, "Unit tests / Go", Shell("echo passed; echo again >>count")); err != nil {
		t.Error(err)
	}
	if got := f.Sh(t, id, "cat count"); got != "again\n" {
		t.Errorf("it ran: %q", got)
	}
}
