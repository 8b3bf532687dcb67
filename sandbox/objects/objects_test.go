package objects_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// history fills a repository with commits that change lines of a few files, so that its pack has chains of deltas.
func history(t *testing.T, r repo) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	lines := make([]string, 300)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d %d", i, rnd.Uint64())
	}
	var s strings.Builder
	for n := range 60 {
		fmt.Fprintf(&s, "commit refs/heads/main\ncommitter a <a@example.com> %d +0000\ndata 1\nx\n", n+2)
		if n == 0 {
			s.WriteString("from refs/heads/main^0\n")
		}
		lines[rnd.IntN(len(lines))] = fmt.Sprintf("changed %d", rnd.Uint64())
		text := strings.Join(lines, "\n")
		fmt.Fprintf(&s, "M 100644 inline d%d/e/f%d\ndata %d\n%s\n", n%7, n%3, len(text), text)
	}
	s.WriteString("tag one\nfrom refs/heads/main\ntagger a <a@example.com> 1 +0000\ndata 1\nx\n")
	r.run(t, s.String(), "fast-import", "--quiet")
}

// same compares all objects with what git says of them.
func same(t *testing.T, r repo) {
	t.Helper()
	in := objects.Open(string(r))
	defer in.Close()
	list := strings.Split(r.run(t, "", "cat-file", "--batch-all-objects", "--unordered", "--batch-check"), "\n")
	if len(list) < 100 {
		t.Fatalf("%d objects", len(list))
	}
	for _, l := range list {
		w := strings.Fields(l)
		want := r.run(t, "", "cat-file", w[1], w[0])
		kind, got, err := in.Get(w[0])
		size, serr := in.Size(w[0])
		has, herr := in.Has(w[0])
		if err != nil || kind != w[1] || strings.TrimSpace(string(got)) != want || strconv.Itoa(len(got)) != w[2] || fmt.Sprint(size) != w[2] ||
			serr != nil || !has || herr != nil {
			t.Fatalf("%s: %s of %d bytes, %v; size %d, %v; there: %v, %v", l, kind, len(got), err, size, serr, has, herr)
		}
	}
}

func TestReadsWhatGitWrites(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"Loose":  {"unpack"},
		"Offset": {"-c", "pack.depth=200", "repack", "-adfq"},
		"ID":     {"-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"},
		"Multi":  {"multi-pack-index", "write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := store(t)
			history(t, r)
			if name == "Loose" {
				unpack(t, r)
			} else {
				r.run(t, "", args...)
			}
			same(t, r)
		})
	}
}

// unpack turns the packs into files of single objects.
func unpack(t *testing.T, r repo) {
	t.Helper()
	packs, _ := filepath.Glob(filepath.Join(string(r), "objects/pack/*.pack"))
	for _, p := range packs {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{".pack", ".idx", ".rev"} {
			os.Remove(strings.TrimSuffix(p, ".pack") + end)
		}
		r.run(t, string(data), "unpack-objects", "-q")
	}
}

// TestPackedAnew: a reader that is open while a store is packed anew finds what it knew and what it did not.
func TestPackedAnew(t *testing.T) {
	t.Parallel()
	r, base := store(t)
	in := objects.Open(string(r))
	defer in.Close()
	if _, err := in.Commit(base); err != nil {
		t.Fatal(err)
	}
	history(t, r)
	r.run(t, "", "repack", "-adq")
	for _, rev := range []string{"main", "main~30", "main~59", base} {
		if _, err := in.Commit(r.run(t, "", "rev-parse", rev+"^0")); err != nil {
			t.Errorf("%s: %v", rev, err)
		}
	}
}

// TestTree: entries, and old modes as git takes them.
func TestTree(t *testing.T) {
	t.Parallel()
	r, base := store(t)
	in := objects.Open(string(r))
	defer in.Close()
	head, err := in.Commit(base)
	if err != nil || head.When.Unix() != 1 {
		t.Fatalf("%v, %v", head, err)
	}
	top, err := in.Tree(head.Tree)
	if err != nil || len(top) != 2 || top["a"].Mode != objects.ModeFile || top["d"].Mode != objects.ModeTree {
		t.Errorf("%v, %v", top, err)
	}
	if _, err := in.Tree(base); !errors.Is(err, git.ErrCorrupt) {
		t.Errorf("a commit as a tree: %v", err)
	}
}

// TestDamage: whatever a pack, its index or an object holds, reading ends, with an error or with what was there.
func TestDamage(t *testing.T) {
	t.Parallel()
	r, _ := store(t)
	history(t, r)
	r.run(t, "", "-c", "pack.depth=50", "repack", "-adfq")
	ids := strings.Fields(r.run(t, "", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"))
	rnd := rand.New(rand.NewPCG(3, 4))
	files, _ := filepath.Glob(filepath.Join(string(r), "objects/pack/*.[ip]*"))
	for range 150 {
		file := files[rnd.IntN(len(files))]
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte{}, good...)
		for range 1 + rnd.IntN(20) {
			bad[rnd.IntN(len(bad))] = byte(rnd.Uint32())
		}
		if rnd.IntN(4) == 0 {
			bad = bad[:rnd.IntN(len(bad))]
		}
		os.Chmod(file, 0o644)
		if err := os.WriteFile(file, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		in := objects.Open(string(r))
		for range 10 {
			id := ids[rnd.IntN(len(ids))]
			if _, _, err := in.Get(id); err != nil && !errors.Is(err, git.ErrCorrupt) && !strings.Contains(err.Error(), "at once") {
				t.Errorf("%s: %v", id, err)
			}
			_, _ = in.Size(id)
		}
		in.Close()
		if err := os.WriteFile(file, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"", "x", strings.Repeat("0", 40), strings.Repeat("g", 40), strings.Repeat("0", 64)} {
		if _, _, err := objects.Open(string(r)).Get(id); !errors.Is(err, git.ErrCorrupt) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
