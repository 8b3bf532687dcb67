package treecopy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t *testing.T, mode os.FileMode, text string, parts ...string) {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	from, to, out := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, 0o644, "mine", out, "canary")
	write(t, 0o755|os.ModeSetuid, "a", from, "d/e/a")
	write(t, 0o400, "b", from, "b")
	write(t, 0o644, "left", from, "skip/c")
	if err := os.Mkdir(filepath.Join(from, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mkfifo(filepath.Join(from, "pipe"), 0o644), os.Symlink(out, filepath.Join(from, "link")),
		os.Symlink(filepath.Join(out, "canary"), filepath.Join(from, "file"))); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1700000000, 0)
	if err := os.Chtimes(filepath.Join(from, "b"), old, old); err != nil {
		t.Fatal(err)
	}
	o := Options{UID: -1, Take: func(p string, _ bool) bool { return p != "skip" }}
	for range 2 { // again after a crash
		stats, err := Copy(t.Context(), from, to, o)
		if err != nil || stats.Files != 4 {
			t.Fatalf("copied %+v: %v", stats, err)
		}
	}
	for name, mode := range map[string]os.FileMode{"d/e/a": 0o755, "b": 0o400} {
		info, err := os.Lstat(filepath.Join(to, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if info, err := os.Lstat(filepath.Join(to, "b")); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("time of b: %v", err)
	}
	if target, err := os.Readlink(filepath.Join(to, "link")); err != nil || target != out {
		t.Errorf("link: %q, %v", target, err)
	}
	for _, gone := range []string{"skip", "pipe", "empty"} {
		if _, err := os.Lstat(filepath.Join(to, gone)); !os.IsNotExist(err) {
			t.Errorf("%s was copied (%v)", gone, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(out, "canary")); err != nil || string(data) != "mine" {
		t.Errorf("canary: %q, %v", data, err)
	}
}

func TestCopyBounds(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	write(t, 0o644, strings.Repeat("x", 1000), from, "a")
	write(t, 0o644, strings.Repeat("x", 1000), from, "b")
	for _, o := range []Options{{UID: -1, Bytes: 1999}, {UID: -1, Files: 1}} {
		if _, err := Copy(t.Context(), from, t.TempDir(), o); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Copy(t.Context(), from, t.TempDir(), Options{UID: -1, Bytes: 2000, Files: 2}); err != nil {
		t.Error(err)
	}
}

// A link that is in the way at the destination leads nobody out.
func TestCopyThroughALink(t *testing.T) {
	t.Parallel()
	from, to, out := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, 0o644, "theirs", from, "d/f")
	if err := os.Symlink(out, filepath.Join(to, "d")); err != nil {
		t.Fatal(err)
	}
	if _, err := Copy(t.Context(), from, to, Options{UID: -1}); err == nil {
		t.Error("copied through a link")
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("%d files outside (%v)", len(left), err)
	}
}
