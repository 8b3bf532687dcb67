package jail

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk is a directory that the tree may write, on a file system of its own.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted for this, which takes root")
	}
	if err := syscall.Mount("small", dir, "tmpfs", 0, options+",mode=0755"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(dir, "workspace"), 0o755); err != nil {
		t.Fatal(err)
	}
	give(t, filepath.Join(dir, "workspace"))
	return dir
}

// A disk limit that is larger than the disk: the agent of one run must not take what the bot needs to go on.
func TestATreeLeavesTheReserveOfTheDisk(t *testing.T) {
	needJail(t)
	t.Parallel()
	const small = "size=64m,nr_inodes=2000"
	for name, script := range map[string]string{
		"bytes": `for i in $(seq 80); do head -c 1M /dev/zero >f$i || exit 3; sleep 0.05; done; echo ALL`,
		"files": `for i in $(seq 2000); do : >f$i || exit 3; [ $((i % 20)) -gt 0 ] || sleep 0.02; done; echo ALL`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, small)
			s := Spec{Workspace: filepath.Join(disk, "workspace")}
			o := try(t, without{}, s, script)
			if o.Reason != HostDiskLow || o.Code != -1 || len(o.Observations) != 1 || !strings.Contains(o.Observations[0].Evidence, "the machine's disk ran low") {
				t.Errorf("ended with %s, %d, %v:\n%s", o.Reason, o.Code, o.Observations, o.out)
			}
			// What keeps records beside the workspace still can.
			if err := os.WriteFile(filepath.Join(disk, "record"), make([]byte, 64<<10), 0o600); err != nil {
				t.Errorf("nothing can be written after it: %v", err)
			}
			if o := try(t, without{}, s, `echo BEGAN`); o.Reason != HostDiskLow || o.says("BEGAN") || len(o.Observations) != 1 {
				t.Errorf("the next command: %s, %v: %s", o.Reason, o.Observations, o.out)
			}
			if err := os.RemoveAll(s.Workspace); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(s.Workspace, 0o755); err != nil {
				t.Fatal(err)
			}
			give(t, s.Workspace)
			if o := try(t, without{}, s, `echo BEGAN`); o.Reason != Exited || !o.says("BEGAN") {
				t.Errorf("with room again: %s, %v: %s", o.Reason, o.Observations, o.out)
			}
		})
		t.Run(name+" unwatched", func(t *testing.T) { // the control
			t.Parallel()
			disk := smallDisk(t, small)
			o := try(t, without{watch: true}, Spec{Workspace: filepath.Join(disk, "workspace")}, script)
			if o.Code != 2 && o.Code != 3 || o.says("ALL") {
				t.Errorf("it did not fill the disk: %s, %d:\n%s", o.Reason, o.Code, o.out)
			}
			if err := os.WriteFile(filepath.Join(disk, "record"), make([]byte, 64<<10), 0o600); err == nil {
				t.Error("something can still be written")
			}
		})
	}
}

// On an overlay it is the upper layer that grows.
func TestAnOverlayLeavesTheReserveOfTheDisk(t *testing.T) {
	needJail(t)
	t.Parallel()
	disk := smallDisk(t, "size=64m")
	s, _, _ := layered(t)
	at := func(name string) string {
		dir := filepath.Join(disk, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		give(t, dir)
		return dir
	}
	s.Mounts[0].Host, s.Mounts[0].Overlay.Work = at("upper"), at("work")
	const script = `cat a; for i in $(seq 80); do head -c 1M /dev/zero >f$i || exit 3; sleep 0.05; done; echo ALL`
	if out, res := inLayers(t, s, script); res.Reason != HostDiskLow {
		t.Errorf("ended with %+v\n%s", res, out)
	}
	if out, res := inLayers(t, s, "cat a"); res.Reason != HostDiskLow || out != "" {
		t.Errorf("the next command: %+v\n%s", res, out)
	}
}
