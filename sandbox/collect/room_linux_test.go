package collect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// What does not fit is refused before git fills the rest of the disk with a part of it.
func TestWhatIsRecordedFitsTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted for this, which takes root")
	}
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=20m"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 15<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	hold := func(sizes ...int64) error {
		c := &collector{Source: Source{Scratch: dir, Caps: Caps{}.withDefaults(), Everything: true}}
		for _, size := range sizes {
			c.changes = append(c.changes, change{path: "f", as: "f", size: size})
		}
		return c.holdToCaps()
	}
	if err := hold(2<<20, 2<<20); err != nil {
		t.Errorf("4 of 5 MiB: %v", err)
	}
	if err := hold(2<<20, 2<<20, 2<<20); !errors.Is(err, errTooMuch) {
		t.Errorf("6 of 5 MiB: %v", err)
	}
}

// TestFullDiskIsNamed, with what to do, whoever met it.
func TestFullDiskIsNamed(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"Ours": &os.PathError{Op: "write", Path: "mirror", Err: syscall.ENOSPC},
		"Git":  &git.Error{Args: []string{"fast-import"}, Stderr: "fatal: cannot create pack: No space left on device\n", Exit: 128},
		"Room": fmt.Errorf("changed files: %w of 5 bytes", errNoRoom),
	} {
		err := (&collector{}).refuse(fmt.Errorf("build: %w", cause))
		if !strings.HasPrefix(err.Error(), "collect: no space left on device: make room") || !errors.Is(err, sandbox.ErrUnrecorded) || !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&collector{}).refuse(errTooMuch); strings.Contains(err.Error(), "no space") {
		t.Errorf("a cap is no full disk: %v", err)
	}
}
