package jail_test

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/local"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// int80 is a program for x86-64 that calls unshare(CLONE_NEWUSER) by its 32-bit number, which the filter kills.
var int80 = base64.StdEncoding.EncodeToString(append(append(
	[]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00\x01\x00\x00\x00\x78\x00\x40\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00"+
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x38\x00\x01\x00\x00\x00\x00\x00\x00\x00"),
	"\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00"+
		"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00"...),
	"\xbb\x00\x00\x00\x10\xb8\x36\x01\x00\x00\xcd\x80"...))

// Each kind of thing that is looked for is done once, and has to be found, by whom and with what outcome.
func TestFindings(t *testing.T) {
	if _, err := jail.Run(t.Context(), jail.Spec{Argv: []string{"/bin/true"}}, jail.Stdio{}); err != nil {
		t.Skipf("no jail on this machine: %v", err)
	}
	small := sandbox.Limits{Procs: 40, Memory: 64 << 20, Disk: 12 << 20, Output: 1 << 20, Files: 200}
	const request = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf "%s\r\nHost: x\r\nConnection: close\r\n\r\n" "$0" >&3; cat <&3' `
	for _, c := range []struct {
		kind, observer, outcome string
		script                  string
		confine                 func(sandbox.ID, string) local.Confine // of the run and its directory; nil: the jail
		command                 sandbox.Command
		groups                  bool // it takes a control group
	}{
		{kind: "sys.killed", observer: "kernel", outcome: "contained", script: `echo ` + int80 + ` | base64 -d >a; chmod +x a; exec ./a`},
		{kind: "net.denied", observer: "host", outcome: "contained", script: request + `'CONNECT denied.example:443 HTTP/1.1'`, command: sandbox.Command{Network: []string{"allowed.example"}}},
		{kind: "broker.refused", observer: "host", outcome: "contained", script: request + `'GET /model/openai/v1/files HTTP/1.1'`, command: sandbox.Command{Broker: &sandbox.Grant{Git: true}}},
		{kind: "collect.special", observer: "host", outcome: "contained", script: `mkfifo pipe`},
		{kind: "fs.setuid", observer: "host", outcome: "contained", script: `echo x >s; chmod 4755 s`},
		{kind: "fs.symlink_out", observer: "host", outcome: "contained", script: `ln -s /etc/passwd out`},
		{kind: "fs.canary", observer: "host", outcome: "breach", script: `echo x >"/mnt/canary"`,
			confine: func(_ sandbox.ID, dir string) local.Confine {
				return with(func(s *jail.Spec) {
					s.Mounts = append(s.Mounts, jail.Mount{Host: filepath.Join(dir, "canary"), Inside: "/mnt/canary", Writable: true})
				})
			}},
		{kind: "proc.survivor", observer: "host", outcome: "inconclusive", script: `setsid sleep 120 >/dev/null 2>&1 </dev/null & sleep 0.2`, groups: true,
			confine: func(sandbox.ID, string) local.Confine { return without("namespaces") }},
		{kind: "res.memory", observer: "kernel", outcome: "contained", script: `dd if=/dev/zero of=/dev/null bs=200M count=2`, groups: true},
		{kind: "res.pids", observer: "kernel", outcome: "contained", script: `i=0; while [ $i -lt 80 ]; do sleep 5 & i=$((i+1)); done`, groups: true,
			confine: func(sandbox.ID, string) local.Confine { return without("rlimits") }}, // which say no first
		{kind: "res.disk", observer: "host", outcome: "contained", script: `for i in 1 2 3 4 5 6; do head -c 4M /dev/zero >f$i; sleep 0.3; done; sleep 60`},
		{kind: "res.files", observer: "host", outcome: "contained", script: `i=0; while [ $i -lt 400 ]; do : >f$i; i=$((i+1)); done; sleep 60`},
		{kind: "res.output", observer: "host", outcome: "contained", script: `head -c 4M /dev/zero; sleep 60`},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			if c.kind == "sys.killed" && runtime.GOARCH != "amd64" {
				t.Skip("the program is for amd64")
			}
			var f sandboxtest.Fixture
			var id sandbox.ID
			f = openFor(t, func(ctx context.Context, s jail.Spec, std jail.Stdio) (jail.Result, error) {
				if c.confine != nil {
					return c.confine(id, filepath.Join(f.StateDir, "runs", string(id)))(ctx, s, std)
				}
				return jail.Run(ctx, s, std)
			})
			repo := sandboxtest.NewRepo(t)
			repo.Commit()
			var err error
			if id, err = f.Manager.Create(t.Context(), "", f.Source(t, repo), sandbox.Options{Limits: small}); err != nil {
				t.Fatal(err)
			}
			c.command.Argv = []string{"sh", "-c", c.script}
			exit, err := f.Manager.Run(t.Context(), id, c.command, sandbox.Stdio{})
			if err != nil {
				t.Fatal(err)
			}
			if c.groups && slices.Contains(exit.Watched, "memory") {
				t.Skip("no control group can be made here")
			}
			if c.kind == "proc.survivor" {
				endSurvivors(t, string(id))
			}
			_, _ = f.Manager.CollectDiff(t.Context(), id)
			rec, err := f.Manager.Record(id)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.IndexFunc(rec.Findings, func(f sandbox.Finding) bool { return f.Kind == c.kind })
			if found < 0 {
				t.Fatalf("not found: %+v, %+v", exit, rec.Findings)
			}
			if got := rec.Findings[found]; got.Observer != c.observer || got.Outcome != c.outcome || got.Run != id || got.Evidence == "" || got.Severity == "" {
				t.Errorf("found as %+v", got)
			}
		})
	}
}

// openFor opens sandboxes with a broker and with a boundary that may have been changed.
func openFor(t *testing.T, confine local.Confine) sandboxtest.Fixture {
	t.Helper()
	f := sandboxtest.Fixture{StateDir: t.TempDir()}
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Stores, err = gitstore.Open(filepath.Join(f.StateDir, "stores"), g); err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Options{Stores: f.Stores})
	if err != nil {
		t.Fatal(err)
	}
	f.Manager, err = sandbox.Open(sandbox.Config{StateDir: f.StateDir, Stores: f.Stores,
		Backends: []sandbox.Backend{worktree.New(worktree.Options{Stores: f.Stores, Confine: confine, Broker: b})}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// endSurvivors ends what the test has let out: its control group is the one thing that still knows it.
func endSurvivors(t *testing.T, run string) {
	t.Helper()
	out, err := exec.Command("find", "/sys/fs/cgroup", "-path", "*/sandpiper-"+run+".*/cgroup.procs").Output()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	for _, file := range strings.Fields(string(out)) {
		text, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}
