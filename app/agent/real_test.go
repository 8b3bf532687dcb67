package agent_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/fixtures/agents"
	"github.com/sandpiper-bot/sandpiper/fixtures/model"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// canary is the model's key. It may be seen at the model's API and nowhere else.
const canary = "sk-canary-77d1c0a94be2f6358e10"

// TestRealAgents runs the agents themselves, each in the jail, with a scripted model behind the broker: it changes a file, fetches
// the repository's history, and ends well, and the key is nowhere to be found.
func TestRealAgents(t *testing.T) {
	for _, name := range policy.Profiles() {
		t.Run(name, func(t *testing.T) { testRealAgent(t, name) })
	}
}

func testRealAgent(t *testing.T, name string) {
	api := model.New(model.Options{
		Key: canary,
		Shell: []string{
			"git fetch -q origin && git log --format=%s origin/main >history.txt",
			"echo mended >sum.txt; { env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; } >seen.txt 2>/dev/null; true",
		},
		Say: "Mended the sum.",
	})
	var leaks atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaks.Add(int64(inProcesses(canary)))
		api.ServeHTTP(w, r)
	}))
	defer upstream.Close()

	state := t.TempDir()
	m, id, p, c := prepare(t, state, name, upstream.URL, &sandbox.Grant{Git: true, Money: 5_000_000})
	var log bytes.Buffer
	exit, err := m.Run(t.Context(), id, c, sandbox.Stdio{Out: &log, Err: &log})
	if err != nil {
		t.Fatal(err)
	}
	parser := p.Parser()
	stream := agent.NewStream(parser, nil)
	stream.Write(log.Bytes())
	stream.Flush()
	o := parser.Outcome(exit)
	if o.Class != agent.Finished || !strings.Contains(o.Summary, "Mended the sum.") {
		t.Errorf("outcome %+v after %+v\n%.6000s", o, exit, log.String())
	}
	if _, err := m.CollectDiff(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	changes, err := m.ListChanges(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, ch := range changes {
		got[ch.Path] = true
	}
	if !got["sum.txt"] || !got["history.txt"] || !got["seen.txt"] {
		t.Errorf("changes: %+v", changes)
	}
	if s := exit.Spent; s == nil || s.Requests < 3 || s.Input < 3*model.Input || s.Money == 0 {
		t.Errorf("spent %+v", s)
	}
	asked := 0
	for _, r := range api.Requests() {
		if strings.Contains(strings.Join(append(r.Header["Authorization"], append(r.Header["X-Api-Key"], r.Header["X-Goog-Api-Key"]...)...), " "), canary) {
			asked++
		}
		if bytes.Contains(r.Body, []byte(canary)) {
			t.Error("the key is in a request's body")
		}
	}
	if asked == 0 || asked != len(api.Requests()) {
		t.Errorf("%d of %d requests came with the key", asked, len(api.Requests()))
	}
	if leaks.Load() != 0 || bytes.Contains(log.Bytes(), []byte(canary)) {
		t.Errorf("the key is in %d environments or command lines, or in the log", leaks.Load())
	}
	inFiles(t, state, canary)
	rec, err := m.Record(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rec.Findings {
		t.Logf("finding: %s: %s", f.Kind, f.Evidence)
	}
}

// TestRealAgentsEndAtTheBudget: an agent whose budget is used up is told so in the words of its API, says so, and ends; it does not try
// again until its time is over.
func TestRealAgentsEndAtTheBudget(t *testing.T) {
	for _, name := range policy.Profiles() {
		t.Run(name, func(t *testing.T) {
			api := model.New(model.Options{Key: canary, Shell: []string{"true", "true", "true", "true"}})
			upstream := httptest.NewServer(api)
			defer upstream.Close()
			m, id, p, c := prepare(t, t.TempDir(), name, upstream.URL, &sandbox.Grant{Requests: 2})
			c.Timeout = 90 * time.Second
			var log bytes.Buffer
			exit, err := m.Run(t.Context(), id, c, sandbox.Stdio{Out: &log, Err: &log})
			if err != nil {
				t.Fatal(err)
			}
			parser := p.Parser()
			stream := agent.NewStream(parser, nil)
			stream.Write(log.Bytes())
			stream.Flush()
			if o := parser.Outcome(exit); o.Class == agent.Finished || o.Reason != sandbox.Exited || !strings.Contains(o.Summary, "the budget is used up") {
				t.Errorf("outcome %+v after %+v\n%.6000s", o, exit, log.String())
			}
			t.Logf("ended after %s with %d", exit.Ended.Sub(exit.Started), exit.Code)
		})
	}
}

// prepare makes a sandbox and the command of an agent for it; it skips where the agent is not installed.
func prepare(t *testing.T, state, name, upstream string, grant *sandbox.Grant) (*sandbox.Manager, sandbox.ID, agent.Profile, sandbox.Command) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap (bwrap) is not installed: nothing can be run in a sandbox")
	}
	prefix, ok, how := agents.Installed(name)
	if !ok {
		t.Skip(how)
	}
	var system []string
	if prefix != "" {
		system = []string{prefix}
	}
	m, source := openManager(t, state, upstream, system)
	id, err := m.Create(t.Context(), "m-test", source, sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := agent.Lookup(policy.Agent{Profile: name})
	if err != nil {
		t.Fatal(err)
	}
	task := filepath.Join(state, "runs", string(id), "task")
	if _, err := agent.Hydrate(task, agent.Task{Repository: "o/r", Issue: agent.Issue{Number: 1, Title: "Mend the sum"}}, noTree{}, policy.Default()); err != nil {
		t.Fatal(err)
	}
	c, err := p.Command(agent.Launch{
		Dir: task, Timeout: 4 * time.Minute, Models: map[string]string{p.Model: broker.Endpoint(p.Model)},
		Grant: grant,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, id, p, c
}

// openManager makes a state directory with a repository of two commits in its store, the first of them the base.
func openManager(t *testing.T, state, upstream string, system []string) (*sandbox.Manager, sandbox.Source) {
	t.Helper()
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stores, err := gitstore.Open(filepath.Join(state, "stores"), g)
	if err != nil {
		t.Fatal(err)
	}
	ups := map[string]broker.Upstream{}
	for _, name := range []string{"anthropic", "openai", "gemini"} {
		ups[name] = broker.Upstream{URL: upstream, Key: redact.NewSecret(canary)}
	}
	b, err := broker.New(broker.Options{Models: ups, Stores: stores})
	if err != nil {
		t.Fatal(err)
	}
	m, err := sandbox.Open(sandbox.Config{StateDir: state, Stores: stores,
		Backends: []sandbox.Backend{worktree.New(worktree.Options{Stores: stores, System: system, Broker: b})}})
	if err != nil {
		t.Fatal(err)
	}
	origin := t.TempDir()
	in := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = origin
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	in("init", "-q", "-b", "main")
	in("commit", "-q", "--allow-empty", "-m", "the base")
	base := in("rev-parse", "HEAD")
	in("commit", "-q", "--allow-empty", "-m", "later")
	remote := gitstore.Remote{Key: "local-test", URL: origin}
	if err := stores.Fetch(t.Context(), remote, "+refs/heads/main:refs/sandpiper/fetch/heads/main"); err != nil {
		t.Fatal(err)
	}
	return m, sandbox.Source{Key: remote.Key, Base: base}
}

type noTree struct{}

func (noTree) Exists(string) bool                             { return false }
func (noTree) Read(string) ([]byte, error)                    { return nil, fs.ErrNotExist }
func (noTree) Paths() (files, submodules []string, err error) { return nil, nil, nil }

// inProcesses counts the processes of this machine that show a text in their environment or command line.
func inProcesses(text string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range append(files, lines...) {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(text)) {
			n++
		}
	}
	return n
}

// inFiles looks for a text in all files below a directory.
func inFiles(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
