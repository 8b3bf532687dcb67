package jail_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/local"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

func probed(t *testing.T, confine local.Confine) probe.Result {
	t.Helper()
	state := t.TempDir()
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stores, err := gitstore.Open(filepath.Join(state, "stores"), g)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sandbox.Open(sandbox.Config{StateDir: state, Stores: stores,
		Backends: []sandbox.Backend{worktree.New(worktree.Options{Stores: stores, Confine: confine})}})
	if err != nil {
		t.Fatal(err)
	}
	return probe.Run(t.Context(), probe.Options{Sandboxes: m, Stores: stores, Backend: "worktree", StateDir: state})
}

func without(parts ...string) local.Confine { return jail.RunWithout(parts...) }

// with changes what is asked of the jail.
func with(change func(*jail.Spec)) local.Confine {
	return func(ctx context.Context, s jail.Spec, std jail.Stdio) (jail.Result, error) {
		change(&s)
		return jail.Run(ctx, s, std)
	}
}

// Whichever part of the boundary comes loose, a probe says so.
func TestProbesMissEachPart(t *testing.T) {
	if _, err := jail.Run(t.Context(), jail.Spec{Argv: []string{"/bin/true"}}, jail.Stdio{}); err != nil {
		t.Skipf("no jail on this machine: %v", err)
	}
	if raceDetector && os.Geteuid() != 0 {
		// Inside, the program that looks is this one again; ThreadSanitizer needs more address space than an ordinary user's
		// jail gives it, and ends with 66 before main.
		t.Skip("the race detector does not start in the jail of an ordinary user; run this without -race")
	}
	for _, c := range []struct {
		name    string
		confine local.Confine
		root    bool // only root has the part
		probe   string
		verdict probe.Verdict
		why     string // part of one reason
	}{
		{name: "nothing", verdict: probe.Pass},
		{name: "namespaces", confine: without("namespaces"), probe: "connection", verdict: probe.Breach, why: "was reached from inside"},
		{name: "proxy", confine: with(func(s *jail.Spec) { s.Listen = nil }), probe: "connection", verdict: probe.Inconclusive, why: "no record of having refused"},
		{name: "proxy's rules", confine: with(func(s *jail.Spec) {
			if s.Listen != nil {
				s.Listen = openProxy
			}
		}), probe: "connection", verdict: probe.Breach, why: "was reached from inside"},
		{name: "environment", confine: without("environment"), probe: "connection", verdict: probe.Breach, why: "canary credential was found"},
		{name: "read-only root", confine: without("read-only root"), probe: "marker", verdict: probe.Inconclusive, why: "write / ended with it was allowed inside"},
		{name: "read-only bind", confine: with(func(s *jail.Spec) {
			for i := range s.Mounts {
				s.Mounts[i].Writable = s.Mounts[i].Writable || s.Mounts[i].Inside == local.ObjectsDir
			}
		}), probe: "marker", why: "objects"},
		{name: "a host directory", confine: with(func(s *jail.Spec) {
			s.Mounts = append(s.Mounts, jail.Mount{Host: os.TempDir(), Inside: os.TempDir(), Writable: true})
		}), probe: "marker", verdict: probe.Breach, why: "a marker was written to " + os.TempDir()},
		{name: "seccomp", confine: without("seccomp"), probe: "surface", verdict: probe.Breach, why: "another architecture"},
		{name: "guard", confine: without("guard"), probe: "surface", verdict: probe.Breach, why: "another architecture"},
		{name: "capabilities and user", confine: without("capabilities", "user"), root: true, probe: "surface", verdict: probe.Inconclusive, why: "Cap"},
		{name: "user", confine: without("user"), root: true, probe: "surface", verdict: probe.Inconclusive, why: "user 0"},
		{name: "limits", confine: without("control group", "rlimits", "watcher"), probe: "limits", verdict: probe.Inconclusive, why: "did not hold"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("an ordinary user has nothing of it to lose")
			}
			r := probed(t, c.confine)
			if c.name == "nothing" {
				if !r.OK() {
					t.Fatalf("%+v", r.Probes)
				}
				return
			}
			if r.OK() || r.Tier != "" {
				t.Errorf("passed without it, tier %q: %+v", r.Tier, r.Observed)
			}
			for _, p := range r.Probes {
				if p.Name != c.probe {
					continue
				}
				if c.verdict != "" && p.Verdict != c.verdict || !strings.Contains(strings.Join(p.Why, "\n"), c.why) {
					t.Errorf("%s says %s, %q; want %s, %q", p.Name, p.Verdict, p.Why, c.verdict, c.why)
				}
			}
		})
	}
}

// Where no control group holds the limit of memory, the tier is a lower one, and the result says which limit it is and why.
func TestProbesSayWhatIsWatched(t *testing.T) {
	if _, err := jail.Run(t.Context(), jail.Spec{Argv: []string{"/bin/true"}}, jail.Stdio{}); err != nil {
		t.Skipf("no jail on this machine: %v", err)
	}
	if raceDetector { // see TestProbesMissEachPart: the same goes for root without a control group
		t.Skip("the race detector does not start under RLIMIT_DATA; run this without -race")
	}
	r := probed(t, without("control group"))
	if !r.OK() || r.Tier != probe.Colleague || !slices.Equal(r.Watched, []string{"memory"}) {
		t.Errorf("verdict %s, tier %q, watched %q: %+v", r.Verdict, r.Tier, r.Watched, r.Probes)
	}
	if !strings.Contains(strings.Join(r.Lowered, "\n"), "no control group holds the limit of memory") {
		t.Errorf("lowered: %q", r.Lowered)
	}
}

// openProxy carries every tunnel that it is asked for.
func openProxy(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			in := bufio.NewReader(c)
			line, _ := in.ReadString('\n')
			var method, host string
			if n, _ := fmt.Sscan(line, &method, &host); n != 2 || method != "CONNECT" {
				return
			}
			to, err := net.Dial("tcp", host)
			if err != nil {
				return
			}
			defer to.Close()
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
			_, _ = io.Copy(to, in)
		}()
	}
}
