package worktree_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
)

// toLoopback is a world in which every host is this machine.
var toLoopback = egress.Options{
	AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	},
}

// ask is a request to the proxy by hand, for there is no curl everywhere.
const ask = `ask() { bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128 || exit 7; printf "GET http://$0/ HTTP/1.1\r\nHost: $0\r\nConnection: close\r\n\r\n" >&3; cat <&3' "$1"; }
`

func server(t *testing.T) (port string) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "REACHED %s\n", r.Host) }))
	t.Cleanup(srv.Close)
	_, port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	return port
}

func decisions(t *testing.T, file string) (all []egress.Decision) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var d egress.Decision
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, d)
	}
	return all
}

// TestNetwork: a command reaches the hosts that it was given and no others, by the proxy and by nothing else.
func TestNetwork(t *testing.T) {
	needsJail(t)
	f := sandboxtest.New(t, open)
	repo := sandboxtest.NewRepo(t)
	repo.Commit()
	id := f.Create(t, repo)
	port := server(t)
	script := ask + `ask good.example:` + port + `; ask evil.example:` + port + `
bash -c 'exec 3<>/dev/tcp/127.0.0.1/` + port + ` && echo DIRECT' || true
env | grep -i _proxy= | sort`
	run := func(network ...string) (string, sandbox.Exit) {
		c := sandboxtest.Shell(script)
		c.Network = network
		var out bytes.Buffer
		exit, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{Out: &out, Err: &out})
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), exit
	}

	out, exit := run("good.example:" + port)
	for _, want := range []string{"REACHED good.example:" + port, "HTTP/1.1 403 ", `network: ["evil.example:` + port + `"]`, "https_proxy=http://127.0.0.1:3128"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "REACHED evil") || strings.Contains(out, "DIRECT") {
		t.Errorf("reached what is closed:\n%s", out)
	}
	if diff := cmp.Diff([]string{"evil.example:" + port}, exit.Blocked); diff != "" {
		t.Error(diff)
	}
	ds := decisions(t, filepath.Join(f.StateDir, "runs", string(id), "egress.jsonl"))
	if len(ds) != 2 || !ds[0].Allowed || ds[0].Run != string(id) || ds[1].Allowed || ds[1].Host != "evil.example" {
		t.Errorf("recorded: %+v", ds)
	}
	rec, err := f.Manager.Record(id)
	if err != nil || len(rec.Findings) != 1 || rec.Findings[0].Kind != "net.denied" || rec.Findings[0].Outcome != "contained" ||
		!strings.HasPrefix(rec.Findings[0].Evidence, "evil.example:"+port+": not on the list") {
		t.Errorf("findings: %+v, %v", rec.Findings, err)
	}

	// Controls: with both hosts open both are reached, and with none there is not even a proxy.
	if out, exit := run("good.example:"+port, "evil.example:"+port); !strings.Contains(out, "REACHED evil") || exit.Blocked != nil {
		t.Errorf("both open: %+v\n%s", exit, out)
	}
	if out, _ := run(); strings.Contains(out, "REACHED") || strings.Contains(out, "HTTP/1.1") || strings.Contains(out, "_proxy=") {
		t.Errorf("nothing open:\n%s", out)
	}
}

// TestNetworkOfSupervisedCommand: the supervisor serves the proxy, and leaves its record with the command's.
func TestNetworkOfSupervisedCommand(t *testing.T) {
	needsJail(t)
	f := sandboxtest.New(t, open)
	repo := sandboxtest.NewRepo(t)
	repo.Commit()
	id := f.Create(t, repo)
	port := server(t)
	c := sandboxtest.Shell(ask + "ask good.example:" + port + "; ask registry.npmjs.org; exit 1")
	c.Network = []string{"good.example:" + port}
	res, err := f.Manager.RunCheck(t.Context(), id, "setup", c)
	if err != nil {
		t.Fatal(err)
	}
	log, _ := os.ReadFile(res.Log)
	if !strings.Contains(string(log), "REACHED good") || !strings.Contains(string(log), `network: ["registry.npmjs.org"]`) {
		t.Errorf("log: %s", log)
	}
	if diff := cmp.Diff([]string{"registry.npmjs.org:80"}, res.Exit.Blocked); diff != "" {
		t.Error(diff)
	}
	if ds := decisions(t, filepath.Join(filepath.Dir(res.Log), "egress.jsonl")); len(ds) != 2 {
		t.Errorf("recorded: %+v", ds)
	}
}

// TestTLSFromInside: a tunnel is for one name, whatever is said in it. The server would serve both.
func TestTLSFromInside(t *testing.T) {
	needsJail(t)
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	f := sandboxtest.New(t, open)
	repo := sandboxtest.NewRepo(t)
	repo.Commit()
	id := f.Create(t, repo)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "REACHED %s\n", r.Host) }))
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for name, reached := range map[string]bool{"good.example": true, "evil.example": false} {
		c := sandboxtest.Shell(`printf 'GET / HTTP/1.1\r\nHost: ` + name + `\r\nConnection: close\r\n\r\n' |
openssl s_client -quiet -proxy 127.0.0.1:3128 -connect good.example:` + port + ` -servername ` + name + ` || true`)
		c.Network = []string{"good.example:" + port}
		var out bytes.Buffer
		if _, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{Out: &out, Err: &out}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "REACHED "+name) != reached {
			t.Errorf("%s in a tunnel for good.example:\n%s", name, out.String())
		}
	}
	rec, err := f.Manager.Record(id)
	if err != nil || len(rec.Findings) != 1 || rec.Findings[0].Severity != "medium" || !strings.Contains(rec.Findings[0].Evidence, "another name inside") {
		t.Errorf("findings: %+v, %v", rec.Findings, err)
	}
}

// Tools find the proxy by themselves.
func TestToolsFindTheProxy(t *testing.T) {
	needsJail(t)
	f := sandboxtest.New(t, open)
	repo := sandboxtest.NewRepo(t)
	repo.Commit()
	id := f.Create(t, repo)
	port := server(t)
	url := "http://good.example:" + port + "/"
	for tool, script := range map[string]string{
		"curl":    "curl -sS " + url,
		"python3": `python3 -c 'import urllib.request as u; print(u.urlopen("` + url + `").read())'`,
		"git":     `git ls-remote ` + url + ` 2>&1 | grep -q "not found\|not valid: is this a git repository" && echo REACHED`,
		"wget":    "wget -qO- " + url,
	} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("%s is not installed", tool)
			continue
		}
		c := sandboxtest.Shell(script)
		c.Network = []string{"good.example:" + port}
		var out bytes.Buffer
		exit, err := f.Manager.Run(t.Context(), id, c, sandbox.Stdio{Out: &out, Err: &out})
		if err != nil || !strings.Contains(out.String(), "REACHED") {
			t.Errorf("%s: %+v, %v\n%s", tool, exit, err, out.String())
		}
	}
}
