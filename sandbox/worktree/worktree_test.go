package worktree_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/collect"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

func open(state string, supervisor []string) (sandboxtest.Fixture, error) {
	return openWith(state, supervisor, git.Options{}, collect.Caps{})
}

func openWith(state string, supervisor []string, o git.Options, caps collect.Caps) (sandboxtest.Fixture, error) {
	f := sandboxtest.Fixture{StateDir: state}
	g, err := git.New(o)
	if err != nil {
		return f, err
	}
	if f.Stores, err = gitstore.Open(filepath.Join(state, "stores"), g); err != nil {
		return f, err
	}
	f.Manager, err = sandbox.Open(sandbox.Config{StateDir: state, Stores: f.Stores, Supervisor: supervisor,
		Backends: []sandbox.Backend{worktree.New(worktree.Options{Stores: f.Stores, Egress: toLoopback, Caps: caps})}})
	return f, err
}

func TestMain(m *testing.M) { sandboxtest.Main(m, open) }

// needsJail skips where nothing can be confined.
func needsJail(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap (bwrap) is not installed: nothing can be run in a sandbox")
	}
}

func TestConformance(t *testing.T) {
	needsJail(t)
	sandboxtest.Run(t, open)
}

// Patterns that git compares with a deep path for years hold nobody up: not who collects what a command has left, nor who removes it, nor who
// makes a sandbox on a commit that brings them.
func TestPatternsWithoutAnEnd(t *testing.T) {
	needsJail(t)
	deep, pattern := strings.Repeat("q/", 150)+"f", strings.Repeat("**/q/", 9)+"**/b"
	f, err := openWith(t.TempDir(), nil, git.Options{}, collect.Caps{Rules: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	plain := sandboxtest.NewRepo(t)
	plain.Write("a.txt", "one\n")
	plain.Commit()
	for name, rule := range map[string]string{".gitignore": pattern, ".gitattributes": pattern + " text"} {
		id := f.Create(t, plain)
		f.Sh(t, id, "mkdir -p "+filepath.Dir(deep)+"; echo x >"+deep+"; echo '"+rule+"' >"+name)
		if _, err := f.Manager.CollectDiff(t.Context(), id); !errors.Is(err, sandbox.ErrUnrecorded) || !strings.Contains(err.Error(), "take too long: more than 1s") {
			t.Errorf("collect with %s: %v", name, err)
		}
		if _, err := f.Manager.Discard(t.Context(), id); err != nil {
			t.Errorf("discard with %s: %v", name, err)
		}
		if got := f.Store(t, "show", sandbox.Ref(id, "discarded")+":"+deep); got != "x" {
			t.Errorf("with %s was recorded: %q", name, got)
		}
	}
	hostile := sandboxtest.NewRepo(t)
	hostile.Write(deep, "x\n")
	hostile.Commit()
	hostile.Write("rules", pattern+" text\n")
	// Git follows them for whatever writes the index, too.
	make := exec.Command("sh", "-ec", `tree=$( (git ls-tree HEAD; printf '100644 blob %s\t.gitattributes\n' $(git hash-object -w --no-filters rules)) | git mktree)
git update-ref HEAD $(git -c user.name=a -c user.email=a@example.com commit-tree -m rules -p HEAD $tree)`)
	make.Dir = hostile.Dir
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f, err = openWith(t.TempDir(), nil, git.Options{Files: time.Second}, collect.Caps{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Manager.Create(t.Context(), "", f.Source(t, hostile), sandbox.Options{}); err == nil || !strings.Contains(err.Error(), "took more than 1s") {
		t.Errorf("create: %v", err)
	}
}
