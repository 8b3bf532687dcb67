package worktree_test

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/fixtures/model"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// asks is a call to the model and one to a host, both by hand, and what git says of the repository.
const asks = `
bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128
printf "POST /model/openai/v1/responses HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n{\"model\":\"gpt-5.5\"}" >&3
cat <&3' | tr -d '\r' | grep -o -e '^HTTP/1.1 ...' -e '"text":"[^"]*"' || echo no broker
git ls-remote origin 2>/dev/null | cut -f2 || echo no repository
`

// A command has of the broker what it was granted, beside its network or without one, and another command of the same sandbox has not.
func TestBroker(t *testing.T) {
	needsJail(t)
	t.Parallel()
	api := model.New(model.Options{Key: "sk-canary-of-this-test-0123456789"})
	upstream := httptest.NewServer(api)
	t.Cleanup(upstream.Close)
	state := t.TempDir()
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stores, err := gitstore.Open(filepath.Join(state, "stores"), g)
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Options{Stores: stores, Models: map[string]broker.Upstream{
		"openai": {URL: upstream.URL, Key: redact.NewSecret("sk-canary-of-this-test-0123456789")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := sandbox.Open(sandbox.Config{StateDir: state, Stores: stores,
		Backends: []sandbox.Backend{worktree.New(worktree.Options{Stores: stores, Broker: b, Egress: toLoopback})}})
	if err != nil {
		t.Fatal(err)
	}
	repo := sandboxtest.NewRepo(t)
	repo.Commit()
	f := sandboxtest.Fixture{Manager: m, Stores: stores, StateDir: state}
	id := f.Create(t, repo)
	port := server(t)
	for _, c := range []struct {
		name    string
		network []string
		grant   *sandbox.Grant
		want    []string
	}{
		{"granted", nil, &sandbox.Grant{Models: []string{"openai"}, Git: true}, []string{"HTTP/1.1 200", `"text":"Done."`, "HEAD"}},
		{"with a network", []string{"good.example:" + port}, &sandbox.Grant{Models: []string{"openai"}, Git: true}, []string{"HTTP/1.1 200", "HEAD", "REACHED good.example"}},
		{"git only", nil, &sandbox.Grant{Git: true}, []string{"HTTP/1.1 403", "HEAD"}},
		{"model only", nil, &sandbox.Grant{Models: []string{"openai"}}, []string{"HTTP/1.1 200"}},
		{"network only", []string{"good.example:" + port}, nil, []string{"REACHED good.example"}},
		{"nothing", nil, nil, []string{"no broker"}},
	} {
		cmd := sandboxtest.Shell("set +e\n" + asks + ask + "test -z \"${http_proxy-}\" || ask good.example:" + port)
		cmd.Network, cmd.Broker = c.network, c.grant
		var out bytes.Buffer
		before := len(api.Requests())
		exit, err := m.Run(t.Context(), id, cmd, sandbox.Stdio{Out: &out, Err: &out})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %s in:\n%s", c.name, want, out.String())
			}
		}
		model := c.grant != nil && len(c.grant.Models) > 0
		if asked := len(api.Requests()) - before; (asked == 1) != model || (exit.Spent != nil) != (c.grant != nil) || model && exit.Spent.Requests != 1 {
			t.Errorf("%s: %d requests, spent %+v", c.name, asked, exit.Spent)
		}
		if !(c.grant != nil && c.grant.Git) && strings.Contains(out.String(), "HEAD") {
			t.Errorf("%s: it sees the repository:\n%s", c.name, out.String())
		}
	}
	rec, err := m.Record(id)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, finding := range rec.Findings {
		kinds[finding.Kind]++
	}
	if kinds["broker.refused"] == 0 {
		t.Errorf("findings %+v", rec.Findings)
	}
	if _, err := os.Stat(filepath.Join(state, "runs", string(id), "exec")); err != nil {
		t.Error(err)
	}
	cmd := sandboxtest.Shell("true")
	cmd.Broker = &sandbox.Grant{Models: []string{"anthropic"}}
	if _, err := m.Run(t.Context(), id, cmd, sandbox.Stdio{}); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("an endpoint without a key: %v", err)
	}
}
