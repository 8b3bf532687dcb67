package agentgit

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// id is a commit that does not have to exist.
func id(c string) string { return strings.Repeat(c, 40) }

func TestReadTips(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  []tip
		bad   string
	}{
		"nothing was written":    {},
		"at the base":            {files: map[string]string{"HEAD": id("b") + "\n", "refs/heads/x": id("b")}},
		"detached":               {files: map[string]string{"HEAD": id("1")}, want: []tip{{"HEAD", id("1"), true}}},
		"on a branch":            {files: map[string]string{"HEAD": "ref: refs/heads/x\n", "refs/heads/x": id("1") + "\n"}, want: []tip{{"HEAD", id("1"), true}}},
		"on a branch to be born": {files: map[string]string{"HEAD": "ref: refs/heads/none\n"}},
		"on a packed branch": {files: map[string]string{"HEAD": "ref: refs/heads/x\n",
			"packed-refs": "# pack-refs with: peeled fully-peeled sorted\n" + id("1") + " refs/heads/x\n^" + id("9") + "\n" + id("2") + " refs/tags/t\n"},
			want: []tip{{"HEAD", id("1"), true}, {name: "refs/tags/t", commit: id("2")}}},
		"a loose ref over a packed one": {files: map[string]string{"HEAD": id("b"), "packed-refs": id("1") + " refs/heads/x\n", "refs/heads/x": id("2")},
			want: []tip{{name: "refs/heads/x", commit: id("2")}}},
		"stashes": {files: map[string]string{"HEAD": id("b"), "refs/stash": id("3"), "logs/refs/stash": id("0") + " " + id("1") + " a <a> 1 +0000\tx\n" +
			id("1") + " " + id("2") + " a <a> 1 +0000\tx\n" + id("2") + " " + id("3") + " a <a> 1 +0000\tx\n"},
			want: []tip{{name: "refs/stash", commit: id("3")}, {name: "refs/stash@{1}", commit: id("2")}, {name: "refs/stash@{2}", commit: id("1")}}},
		"not refs":               {files: map[string]string{"HEAD": id("b"), "refs/heads/x": "ref: refs/heads/y", "refs/heads/y": "../../x", "refs/other/z": id("1")}},
		"a HEAD that is a word":  {files: map[string]string{"HEAD": "--upload-pack=x"}, bad: "no commit"},
		"a HEAD without an end":  {files: map[string]string{"HEAD": strings.Repeat("a", 2<<20)}, bad: "bytes"},
		"a packed-refs too long": {files: map[string]string{"packed-refs": strings.Repeat("a", 2<<20)}, bad: "bytes"},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			put(t, dir, file, text)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readTips(root, id("b"))
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(tip{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v", name, err)
		}
		root.Close()
	}
}

// Pipes and links in the places of files make nobody wait and lead nowhere.
func TestOpenRegular(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	put(t, out, "secret", "secret")
	put(t, dir, "file", "text")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"out": filepath.Join(out, "secret"), "up": "../" + filepath.Base(out) + "/secret", "self": "self"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"pipe", "out", "up", "self", ".", "none", "../x"} {
		if f, _, err := openRegular(root, name); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	f, size, err := openRegular(root, "file")
	if err != nil || size != 4 {
		t.Fatalf("file: %d, %v", size, err)
	}
	f.Close()
}
