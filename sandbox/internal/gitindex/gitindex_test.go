package gitindex

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// repository makes one whose index has some hundred entries and known trees.
func repository(t *testing.T, format string) (dir string, git func(...string) string) {
	t.Helper()
	dir = t.TempDir()
	git = func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "--object-format="+format)
	for i := range 300 {
		name := filepath.Join(dir, fmt.Sprintf("d%d/e%d/%s%d", i%4, i%3, strings.Repeat("n", i%200), i))
		if i == 299 {
			name = filepath.Join(dir, strings.Repeat("long/", 700)+"x")
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(fmt.Sprint(i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("add", "-A")
	git("commit", "-qm", "x")
	return dir, git
}

func read(t *testing.T, dir string) ([]byte, *Index) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	size := 20
	if format, _ := os.ReadFile(filepath.Join(dir, ".git/config")); strings.Contains(string(format), "sha256") {
		size = 32
	}
	x, err := Parse(bytes.Clone(data), size)
	if err != nil {
		t.Fatal(err)
	}
	return data, x
}

// file gives what Write writes.
func file(t *testing.T, x *Index) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := x.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRoundTrip: what was read is written as git wrote it.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		dir, _ := repository(t, format)
		data, x := read(t, dir)
		if got := file(t, x); x.Len() != 300 || !bytes.Equal(got, data) {
			t.Errorf("%s: %d entries; written again it has %d bytes, before %d", format, x.Len(), len(got), len(data))
		}
		for e := range x.Entries(0, x.Len()) {
			if i, ok := x.Find(e.Path()); !ok || x.Entry(i).Path() != e.Path() {
				t.Errorf("%s: %s is not found", format, e.Path())
			}
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(dir, e.Path()), &st); err != nil || !e.Same(&st) {
				t.Errorf("%s: %s is not the same (%v)", format, e.Path(), err)
			}
		}
	}
}

// TestEdit: git takes an edited index for what it says, and computes the right tree of it.
func TestEdit(t *testing.T) {
	t.Parallel()
	dir, git := repository(t, "sha1")
	_, x := read(t, dir)
	var id []byte
	fmt.Sscanf(git("hash-object", "-w", ".git/HEAD"), "%x", &id)
	gone := []string{x.Entry(0).Path(), x.Entry(7).Path(), x.Entry(299).Path(), "d1/not/there"}
	put := []Entry{New("a/new/file", 0o100755, id), New("zz", 0o100644, id), New(x.Entry(20).Path(), 0o100644, id)}
	if err := x.Edit(gone, put); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), file(t, x), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(index string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "GIT_INDEX_FILE=" + index}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	want := filepath.Join(dir, "want")
	run(want, "read-tree", "HEAD")
	run(want, append([]string{"update-index", "--force-remove", "--"}, gone...)...)
	for _, e := range put {
		run(want, "update-index", "--add", "--cacheinfo", fmt.Sprintf("%o,%x,%s", e.Mode(), id, e.Path()))
	}
	if got, want := run(filepath.Join(dir, "other"), "write-tree"), run(want, "write-tree"); got != want {
		t.Errorf("tree is %s, want %s", got, want)
	}
	if got, want := run(filepath.Join(dir, "other"), "ls-files", "-s"), run(want, "ls-files", "-s"); got != want {
		t.Errorf("entries: %s\nwant: %s", got, want)
	}
}

// FuzzParse: no input makes the package panic, and what it takes it gives again.
func FuzzParse(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"))
	x, err := Some(20, []Entry{New("a", 0o100644, make([]byte, 20)), New(strings.Repeat("b", 5000), 0o100644, make([]byte, 20))})
	if err != nil {
		f.Fatal(err)
	}
	x.tree = []byte("\x00-1 0\n")
	var seed bytes.Buffer
	if err := x.Write(&seed); err != nil {
		f.Fatal(err)
	}
	f.Add(seed.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHash(20)
		h.Write(data)
		x, err := Parse(h.Sum(data), 20)
		if err != nil {
			return
		}
		if _, err := Parse(file(t, x), 20); err != nil {
			t.Errorf("what was taken is not taken again: %v", err)
		}
		_ = x.Edit([]string{"a/b"}, []Entry{New("c", 0o100644, make([]byte, 20))})
	})
}

// TestEditAtRandom: an edited index has what a set of paths has that the same is done to, in the same order.
func TestEditAtRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		return strings.Repeat(string(rune('a'+rnd.IntN(3))), rnd.IntN(9)) + fmt.Sprint(rnd.IntN(60))
	}
	x, err := Some(20, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint32{}
	for step := range 300 {
		var gone []string
		var put []Entry
		here := map[string]bool{}
		for range rnd.IntN(6) {
			p := name()
			if here[p] {
				continue
			}
			here[p] = true
			if rnd.IntN(2) == 0 {
				gone = append(gone, p)
				delete(want, p)
			} else {
				put = append(put, New(p, uint32(step), make([]byte, 20)))
				want[p] = uint32(step)
			}
		}
		if err := x.Edit(gone, put); err != nil {
			t.Fatal(err)
		}
		if x, err = Parse(file(t, x), 20); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		var paths []string
		for e := range x.Entries(0, x.Len()) {
			paths = append(paths, e.Path())
			if e.Mode() != want[e.Path()] {
				t.Errorf("step %d: %s has mode %d, want %d", step, e.Path(), e.Mode(), want[e.Path()])
			}
		}
		if !slices.Equal(paths, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("step %d: paths %q, want %q", step, paths, slices.Sorted(maps.Keys(want)))
		}
	}
}
