package removal_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/removal"
)

// TestAll: directories without permissions go too, what a link leads to stays as it is.
func TestAll(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	if err := os.Chmod(out, 0o500); err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "tree")
	for _, d := range []string{"a/b/c", "shut/in"} {
		if err := os.MkdirAll(filepath.Join(tree, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(tree, d, "file"), nil, 0o644), os.Symlink(out, filepath.Join(tree, d, "link"))); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"a/b/c", "a/b", "shut/in", "shut", "."} {
		if err := os.Chmod(filepath.Join(tree, d), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := removal.All(tree); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there (%v)", err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("where a link led: %v, %v", info, err)
	}
	if err := removal.All(tree); err != nil {
		t.Errorf("what is gone: %v", err)
	}
}

// TestAllOfAnyDepth: a tree that is deeper than a process may have open files, and than a path can be long.
func TestAllOfAnyDepth(t *testing.T) {
	t.Parallel()
	depth := 5000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < 50_000 {
		depth += int(limit.Cur)
	}
	tree := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(tree, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range depth {
		if err == nil {
			err = unix.Mkdirat(fd, "d", 0o700)
		}
		next := -1
		if err == nil {
			next, err = unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	if err := removal.All(tree); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there (%v)", err)
	}
}
