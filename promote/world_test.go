package promote

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-github/v60/github"

	double "github.com/sandpiper-bot/sandpiper/fixtures/github"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// world is a repository at the double, reached over HTTP by API and git with an installation token, and a store.
type world struct {
	t      testing.TB
	server *double.Server
	repo   Stored
	deps   Deps
	made   *maker
	req    Request
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s, err := double.New(double.Options{})
	must(t, err)
	must(t, s.Start("127.0.0.1:0"))
	t.Cleanup(func() { must(t, s.Close()) })
	for _, login := range []string{"octavia", "mona"} {
		_, err = s.AddUser(login)
		must(t, err)
	}
	repo, err := s.AddRepo("octavia/calc", double.RepoOptions{Files: map[string]string{
		"sum.go": "package calc\n", "README.md": "# calc\n", ".github/workflows/ci.yml": "on: push\n",
	}})
	must(t, err)
	must(t, s.SetRole("octavia/calc", "mona", double.RoleWrite))
	_, err = s.AddApp(double.AppOptions{Owner: "octavia", Name: "sandpiper", Permissions: map[string]string{"pull_requests": "write", "contents": "write"}})
	must(t, err)
	inst, err := s.Install("sandpiper", "octavia")
	must(t, err)
	app, err := s.AsApp("sandpiper")
	must(t, err)
	token, _, err := app.Apps.CreateInstallationToken(t.Context(), inst.ID, nil)
	must(t, err)
	gh := github.NewClient(nil).WithAuthToken(token.GetToken())
	gh.BaseURL, err = gh.BaseURL.Parse(s.URL() + "/")
	must(t, err)

	g, err := git.New(git.Options{})
	must(t, err)
	stores, err := gitstore.Open(t.TempDir(), g)
	must(t, err)
	remote := gitstore.Remote{Key: fmt.Sprintf("gh-%d", repo.ID), URL: s.URL() + "/octavia/calc.git",
		Credentials: func(context.Context) (string, redact.Secret, error) {
			return "x-access-token", redact.NewSecret(token.GetToken()), nil
		}}
	must(t, stores.Fetch(t.Context(), remote, "+refs/heads/main:refs/sandpiper/fetch/main"))
	base, err := stores.Resolve(t.Context(), remote.Key, "refs/sandpiper/fetch/main")
	must(t, err)

	w := &world{t: t, server: s, repo: Stored{Stores: stores, Remote: remote}}
	w.made = &maker{dir: stores.Dir(remote.Key), base: base, index: filepath.Join(t.TempDir(), "index"), files: map[string]string{"sum.go": "package calc\n\nfunc Sum() {}\n"}}
	w.deps = Deps{GitHub: gh, Sandboxes: w.made, Repository: w.repo, Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") }}
	w.req = Request{
		Run: "r-3f2k-1", Mission: "m-3f2k", Owner: "octavia", Repo: "calc", RepoID: repo.ID, Base: "main", Issue: 1,
		Title: "Sum returns 0 for a single number", Requester: Person{"octavia", 7}, Bot: Person{"sandpiper[bot]", 8},
		When: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Agent: "fixtures/agents/fix-sum",
		Checks:     []Check{{Name: "test", Command: "go test ./...", Conclusion: "success", Summary: "passed", Required: true, Duration: 3400 * time.Millisecond}},
		Given:      []Item{{What: "issue #1", Note: "as of the trigger"}, {What: "AGENTS.md"}},
		Withheld:   []Item{{What: "comment 12", Note: "edited after the trigger"}},
		MissionURL: "https://sandpiper.example/m-3f2k",
	}
	return w
}

// maker stands in for the manager of sandboxes: it makes a commit of some files on the base, with git, in the store.
type maker struct {
	dir, base, index string
	files            map[string]string
	left             []sandbox.Change
	promoted         atomic.Int32
}

func (m *maker) git(stdin string, env []string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Env = append([]string{"GIT_DIR=" + m.dir, "GIT_INDEX_FILE=" + m.index, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"}, env...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

func (m *maker) Promoted(context.Context, sandbox.ID) error {
	m.promoted.Add(1)
	return nil
}

func (m *maker) Select(_ context.Context, id sandbox.ID, sel sandbox.Selection, spec sandbox.CommitSpec) (sandbox.Promotion, error) {
	p := sandbox.Promotion{Run: id, Base: m.base, LeftOut: m.left}
	if _, err := m.git("", nil, "read-tree", m.base); err != nil {
		return p, err
	}
	for _, path := range slices.Sorted(maps.Keys(m.files)) {
		blob, err := m.git(m.files[path], nil, "hash-object", "-w", "--stdin")
		if err != nil {
			return p, err
		}
		if _, err := m.git("", nil, "update-index", "--add", "--cacheinfo", "100644,"+blob+","+path); err != nil {
			return p, err
		}
		p.Changes = append(p.Changes, sandbox.Change{Path: path, Kind: sandbox.Modified, OldMode: "100644", NewMode: "100644", NewID: blob, Size: int64(len(m.files[path])), Added: 2, Removed: 1})
	}
	var err error
	if p.Tree, err = m.git("", nil, "write-tree"); err != nil {
		return p, err
	}
	env := []string{
		"GIT_AUTHOR_NAME=" + spec.Author.Name, "GIT_AUTHOR_EMAIL=" + spec.Author.Email, "GIT_AUTHOR_DATE=" + spec.Author.When.Format(time.RFC3339),
		"GIT_COMMITTER_NAME=" + spec.Committer.Name, "GIT_COMMITTER_EMAIL=" + spec.Committer.Email, "GIT_COMMITTER_DATE=" + spec.Committer.When.Format(time.RFC3339),
	}
	p.Commit, err = m.git(spec.Message, env, "commit-tree", p.Tree, "-p", m.base)
	return p, err
}

// Between knows added, modified and deleted files.
func (m *maker) Between(_ context.Context, _, from, to string) ([]sandbox.Change, error) {
	out, err := m.git("", nil, "diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", from, to)
	var list []sandbox.Change
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		kind := map[string]sandbox.Kind{"A": sandbox.Added, "M": sandbox.Modified, "D": sandbox.Deleted, "T": sandbox.TypeChanged}[f[4]]
		list = append(list, sandbox.Change{Path: fields[i+1], Kind: kind, OldMode: f[0], NewMode: f[1], OldID: f[2], NewID: f[3]})
	}
	return list, err
}

// publish stages and publishes, as two steps of a mission do.
func (w *world) publish() (Result, error) {
	staged, err := w.stage()
	if err != nil {
		return Result{}, err
	}
	w.req.Staged = staged
	return Publish(w.t.Context(), w.deps, w.req)
}

func (w *world) stage() (Staged, error) {
	return Stage(w.t.Context(), w.made, w.repo, w.deps.Redact, w.req)
}

// pulls are all pull requests of the repository, and branches all branches of the bot.
func (w *world) pulls() []*github.PullRequest {
	w.t.Helper()
	list, _, err := w.deps.GitHub.PullRequests.List(w.t.Context(), "octavia", "calc", &github.PullRequestListOptions{State: "all"})
	must(w.t, err)
	return list
}

func (w *world) branches() map[string]string {
	w.t.Helper()
	refs, err := w.repo.LsRemote(w.t.Context(), "refs/heads/sandpiper/*")
	must(w.t, err)
	for name := range refs {
		if !strings.HasPrefix(name, "refs/heads/") {
			delete(refs, name)
		}
	}
	return refs
}

// closes a pull request as a person does.
func (w *world) close(number int) {
	w.t.Helper()
	octavia, err := w.server.As("octavia")
	must(w.t, err)
	_, _, err = octavia.PullRequests.Edit(w.t.Context(), "octavia", "calc", number, &github.PullRequest{State: github.String("closed")})
	must(w.t, err)
}
