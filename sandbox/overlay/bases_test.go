package overlay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
)

// listing prints every path of a checkout with its type, permissions and content, but for .git.
const listing = `find . -path ./.git -prune -o -type l -printf '%p l %l\n' -o -type f -printf '%p f %m ' -exec sha1sum '{}' ';' -o -printf '%p %y %m\n' | sed 's/  .*//' | LC_ALL=C sort`

// history makes commits that change a repository of some hundred files in all ways, and gives their ids.
func history(t *testing.T, r *sandboxtest.Repo, commits int) []string {
	t.Helper()
	for i := range 300 {
		r.Write(fmt.Sprintf("d%d/s%d/f%d.txt", i%5, i%7, i), fmt.Sprintf("content %d\n", i))
	}
	r.Write(".gitattributes", "*.crlf text eol=crlf\n")
	r.Write(".gitignore", "*.log\n")
	ids := []string{r.Commit()}
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range commits {
		for k := range 8 {
			name := fmt.Sprintf("d%d/s%d/f%d.txt", rnd.IntN(5), rnd.IntN(7), rnd.IntN(300))
			switch rnd.IntN(8) {
			case 0:
				os.Remove(filepath.Join(r.Dir, name))
				r.Write(name+"/now/a/directory", "x\n")
			case 1:
				os.RemoveAll(filepath.Join(r.Dir, filepath.Dir(name)))
			case 2:
				os.RemoveAll(filepath.Join(r.Dir, filepath.Dir(name)))
				r.Write(filepath.Dir(name), "a file now\n")
				os.Remove(filepath.Join(r.Dir, filepath.Dir(name)))
			case 3:
				os.Remove(filepath.Join(r.Dir, name))
			case 4:
				r.Write(fmt.Sprintf("new%d/x%d.crlf", n, k), "one\r\ntwo\r\n")
			case 5:
				os.RemoveAll(filepath.Join(r.Dir, name))
				os.Symlink("nowhere", filepath.Join(r.Dir, name))
			case 6:
				r.Write("run.sh", fmt.Sprint(n, k))
				os.Chmod(filepath.Join(r.Dir, "run.sh"), 0o755)
			case 7:
				r.Write(fmt.Sprintf("sub%d/.gitignore", k), fmt.Sprint("*.tmp\n# ", n))
			}
		}
		ids = append(ids, r.Commit())
	}
	return ids
}

// TestDerivedBases: a base that was made of another is what git checks out, and git inside finds nothing to read again.
func TestDerivedBases(t *testing.T) {
	needsOverlay(t)
	f := sandboxtest.New(t, open)
	r := sandboxtest.NewRepo(t)
	ids := history(t, r, 12)
	src := f.Source(t, r)
	derived := 0
	for i, commit := range ids {
		src.Base = commit
		id, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var base struct{ Layers []string }
		if err := durable.ReadJSON(filepath.Join(f.StateDir, "bases", "local-test", commit, "base.json"), &base); err != nil {
			t.Fatal(err)
		}
		if len(base.Layers) > 1 {
			derived++
		}
		plain := t.TempDir()
		r.Git("worktree", "add", "-q", "--detach", filepath.Join(plain, "w"), commit)
		cmd := exec.Command("sh", "-euc", listing)
		cmd.Dir = filepath.Join(plain, "w")
		want, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := f.Sh(t, id, listing)
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Fatalf("commit %d (%d layers): files (-want +got):\n%s", i, len(base.Layers), diff)
		}
		out := f.Sh(t, id, `GIT_TRACE2_PERF=/tmp/trace git status --porcelain; grep -o 'sum_scan:[0-9]*' /tmp/trace; git fsck --connectivity-only >/dev/null && git write-tree; git rev-parse HEAD^{tree}`)
		tree := r.Git("rev-parse", commit+"^{tree}")
		if want := "sum_scan:0\n" + tree + "\n" + tree + "\n"; out != want {
			t.Errorf("commit %d (%d layers): git inside: %q, want %q", i, len(base.Layers), out, want)
		}
	}
	if derived < len(ids)/2 {
		t.Errorf("%d of %d bases were made of others", derived, len(ids))
	}
}
