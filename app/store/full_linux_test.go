package store

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A database on a full disk can be read, and is of no use.
func TestPingOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted for this, which takes root")
	}
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, err := Open(t.Context(), filepath.Join(dir, "sandpiper.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 16<<20), 0o600); err == nil {
		t.Fatal("it did not fill the disk")
	}
	within(t, "a database that cannot be written is not well", func() bool { return s.Ping(t.Context()) != nil })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	within(t, "it is well with room again", func() bool { return s.Ping(t.Context()) == nil })
}

func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.Tick(50*time.Millisecond)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick:
		}
	}
}
