package gitindex

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// TestRoundTrip: what was read is written as git wrote it.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		dir, _ := repository(t, format)
		data, x := read(t, dir)
		if len(x.Entries) != 300 || !bytes.Equal(x.Bytes(), data) {
			t.Errorf("%s: %d entries; written again it has %d bytes, before %d", format, len(x.Entries), len(x.Bytes()), len(data))
		}
		for _, e := range x.Entries {
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
	gone := []string{x.Entries[0].Path(), x.Entries[7].Path()}
	put := []Entry{New("a/new/file", 0o100755, id), New("zz", 0o100644, id), New(x.Entries[20].Path(), 0o100644, id)}
	if err := x.Edit(gone, put); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), x.Bytes(), 0o600); err != nil {
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
	f.Add((&Index{idSize: 20, Entries: []Entry{New("a", 0o100644, make([]byte, 20))}, tree: []byte("\x00-1 0\n")}).Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHash(20)
		h.Write(data)
		x, err := Parse(h.Sum(data), 20)
		if err != nil {
			return
		}
		if _, err := Parse(x.Bytes(), 20); err != nil {
			t.Errorf("what was taken is not taken again: %v", err)
		}
		_ = x.Edit([]string{"a/b"}, []Entry{New("c", 0o100644, make([]byte, 20))})
	})
}
