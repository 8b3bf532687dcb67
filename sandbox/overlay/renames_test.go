package overlay_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// TestRenameOfADirectory: git mv of a directory works in workspaces of root and of the backend that the hint names. Where it does not, the
// output and a finding say what helps, and mv does it.
func TestRenameOfADirectory(t *testing.T) {
	needsOverlay(t)
	f := sandboxtest.New(t, open)
	r := sandboxtest.NewRepo(t)
	r.Write("dir/a", "1\n")
	r.Write("dir/sub/b", "2\n")
	r.Commit()
	src := f.Source(t, r)
	rename := func(m *sandbox.Manager, backend, script string) (said string, ok bool, changed []string, findings []string) {
		t.Helper()
		id, err := m.Create(t.Context(), "m-1", src, sandbox.Options{Backend: backend})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		exit, err := m.Run(t.Context(), id, sandbox.Command{Argv: []string{"sh", "-c", script}}, sandbox.Stdio{Out: &out, Err: &out})
		if err != nil {
			t.Fatal(err)
		}
		changes, err := m.ListChanges(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			changed = append(changed, c.From+" "+c.Path)
		}
		rec, err := m.Record(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range rec.Findings {
			findings = append(findings, f.Kind)
		}
		if _, err := m.Discard(t.Context(), id); err != nil {
			t.Error(err)
		}
		return out.String(), exit.OK(), changed, findings
	}
	moved := []string{"dir/a moved/a", "dir/sub/b moved/sub/b"}
	said, ok, changed, findings := rename(f.Manager, "", "git mv dir moved")
	if os.Geteuid() == 0 {
		if diff := cmp.Diff(moved, changed); !ok || diff != "" || said != "" || findings != nil {
			t.Errorf("git mv by root: %q, findings %q, changes (-want +got):\n%s", said, findings, diff)
		}
	} else if ok || len(changed) > 0 || !strings.Contains(said, "`backend: worktree` in the policy") || !cmp.Equal(findings, []string{"overlay.rename"}) {
		t.Errorf("git mv: %q, changes %q, findings %q", said, changed, findings)
	}
	if said, ok, changed, findings := rename(f.Manager, "", "mv dir moved"); !ok || !cmp.Equal(changed, moved) || findings != nil {
		t.Errorf("mv: %q, changes %q, findings %q", said, changed, findings)
	}
	whole, err := sandbox.Open(sandbox.Config{StateDir: f.StateDir, Stores: f.Stores, Backends: []sandbox.Backend{worktree.New(worktree.Options{Stores: f.Stores})}})
	if err != nil {
		t.Fatal(err)
	}
	if said, ok, changed, findings := rename(whole, "worktree", "git mv dir moved"); !ok || !cmp.Equal(changed, moved) || findings != nil {
		t.Errorf("git mv in a worktree: %q, changes %q, findings %q", said, changed, findings)
	}
}
