package store

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// protect has a file, or a directory with all that is in it, refuse to be written until the result is called.
func protect(t *testing.T, path string) (undo func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, info.Mode()&^0o222)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			os.Chmod(path, info.Mode())
			os.Chmod(path+"-wal", info.Mode()) // which SQLite has made with the mode of the file
			os.Chmod(path+"-shm", info.Mode())
		}
	}
	// No mode keeps root from writing.
	if err := syscall.Mount(path, path, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	undo = sync.OnceFunc(func() {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(undo)
	if err := syscall.Mount("", path, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return undo
}

// A database that must not be written is refused at the start, with what to look at: SQLite opens such a file without a word, and each
// delivery would be answered with an error. What it holds is there when it can be written again.
func TestADatabaseThatIsReadOnly(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"file", "directory"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "sandpiper.db")
			open := func() (*Store, error) {
				s, err := Open(t.Context(), path)
				if err == nil {
					t.Cleanup(func() { s.Close() })
					err = s.Writable(t.Context())
				}
				return s, err
			}
			s, err := open()
			if err != nil {
				t.Fatal(err)
			}
			if fresh, err := s.Put(t.Context(), webhooks.Delivery{ID: "d-1", Event: "issues", ReceivedAt: noon, Body: []byte(`{"action":"labeled"}`)}); !fresh || err != nil {
				t.Fatal(fresh, err)
			}
			s.Close()
			undo := protect(t, map[string]string{"file": path, "directory": dir}[what])
			if s, err := open(); err == nil || !strings.Contains(err.Error(), shutHint) {
				t.Errorf("it must not be written: %v", err)
			} else if s != nil {
				s.Close()
			}
			undo()
			if s, err = open(); err != nil {
				t.Fatal(err)
			}
			if due, err := s.ClaimDeliveries(t.Context(), noon, 5, noon); len(due) != 1 || err != nil || string(due[0].Body) != `{"action":"labeled"}` {
				t.Errorf("due: %v, %v", due, err)
			}
		})
	}
}
