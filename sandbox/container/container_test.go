package container_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/container"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// toLoopback is a world in which every host is this machine.
var toLoopback = egress.Options{
	AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	},
}

func open(state string, supervisor []string) (sandboxtest.Fixture, error) {
	return openWith(state, supervisor, container.Options{})
}

func openWith(state string, supervisor []string, o container.Options) (sandboxtest.Fixture, error) {
	f := sandboxtest.Fixture{StateDir: state}
	g, err := git.New(git.Options{})
	if err != nil {
		return f, err
	}
	if f.Stores, err = gitstore.Open(filepath.Join(state, "stores"), g); err != nil {
		return f, err
	}
	o.Options, o.Cache = worktree.Options{Stores: f.Stores, Egress: toLoopback}, filepath.Join(state, "images")
	f.Manager, err = sandbox.Open(sandbox.Config{StateDir: state, Stores: f.Stores, Supervisor: supervisor, Backends: []sandbox.Backend{container.New(o)}})
	return f, err
}

func TestMain(m *testing.M) { sandboxtest.Main(m, open) }

func needsRuntime(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers are root's")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		t.Skip("runc is not installed: no container can be run")
	}
}

func TestConformance(t *testing.T) {
	needsRuntime(t)
	sandboxtest.Run(t, open)
}

func TestProbesSayOutsider(t *testing.T) {
	needsRuntime(t)
	f := sandboxtest.New(t, open)
	r := probe.Run(t.Context(), probe.Options{Sandboxes: f.Manager, Stores: f.Stores, Backend: "container", StateDir: f.StateDir})
	if !r.OK() || r.Tier != probe.Outsider {
		t.Errorf("verdict %s, tier %q, lowered %q", r.Verdict, r.Tier, r.Lowered)
		for _, p := range r.Probes {
			t.Logf("%s %s %q", p.Name, p.Verdict, p.Why)
		}
		for _, o := range r.Observed {
			t.Logf("%s: %s: %s", o.Observer, o.What, o.Saw)
		}
	}
}

// The first process carries out of the container how a command has ended. No command is to say it in its place.
func TestFirstProcessIsClosed(t *testing.T) {
	needsRuntime(t)
	f := sandboxtest.New(t, open)
	repo := sandboxtest.NewRepo(t)
	repo.Write("a.txt", "one\n")
	repo.Commit()
	id := f.Create(t, repo)
	got := f.Sh(t, id, `for n in 3 4 5 6; do (echo '{"exit-code":7}' >/proc/1/fd/$n) 2>/dev/null && echo "WROTE $n"; done
cat /proc/1/environ /proc/1/mem 2>/dev/null && echo READ; ls /proc/1/cwd/ 2>/dev/null && echo LISTED; ls /proc/self/fd >/dev/null && echo own`)
	if got != "own\n" {
		t.Errorf("said %q", got)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// A command may change the limits of the first process, which is of its user, so that it cannot say any more how the command has ended. What
// it did is on record all the same.
func TestFirstProcessIsSilenced(t *testing.T) {
	needsRuntime(t)
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not installed")
	}
	f := sandboxtest.New(t, open)
	repo := sandboxtest.NewRepo(t)
	repo.Commit()
	id := f.Create(t, repo)
	c := sandbox.Command{Network: []string{"good.example"}, Argv: []string{"perl", "-MIO::Socket::INET", "-e", `
$s = IO::Socket::INET->new("127.0.0.1:3128") or die; print $s "CONNECT evil.example:443 HTTP/1.1\r\n\r\n"; <$s>; print STDERR "bwrap: told";
$l = pack("QQ", 0, 0); syscall(302, 1, 7, $l, 0) == 0 or die`}}
	var said bytes.Buffer
	exit, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{Err: &said})
	if err != nil || exit.Reason != sandbox.Signaled || exit.Code != 137 || !strings.Contains(said.String(), "told") {
		t.Errorf("ended with %+v, %v, and said %q", exit, err, said.String())
	}
	rec, err := f.Manager.Record(id)
	if err != nil || len(rec.Findings) != 1 || rec.Findings[0].Kind != "net.denied" {
		t.Errorf("findings: %+v, %v", rec.Findings, err)
	}
}

// A program that is no runc, for all that it is called like one, is named when a sandbox is made, and not by a command that ends at once.
func TestRuntimeThatIsNone(t *testing.T) {
	needsRuntime(t)
	other := filepath.Join(t.TempDir(), "other")
	script := "#!/bin/sh\n[ \"$*\" = 'run --help' ] || exit 2\necho '-bundle -preserve-fds'; exit 1\n"
	if err := os.WriteFile(other, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for runtime, says := range map[string]string{other: "no 'run --keep'", "/bin/false": "no 'run --preserve-fds'", "sandpiper-nonexistent": "not installed"} {
		f, err := openWith(t.TempDir(), nil, container.Options{Runtime: runtime})
		if err != nil {
			t.Fatal(err)
		}
		repo := sandboxtest.NewRepo(t)
		repo.Commit()
		_, err = f.Manager.Create(t.Context(), "", f.Source(t, repo), sandbox.Options{})
		var not *sandbox.ErrUnavailable
		if !errors.As(err, &not) || !strings.Contains(not.Reason, says) {
			t.Errorf("%s: %v", runtime, err)
		}
	}
}
