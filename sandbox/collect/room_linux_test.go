package collect

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
