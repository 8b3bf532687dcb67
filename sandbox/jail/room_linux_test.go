package jail

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
	const small = "size=200m,nr_inodes=20000"
	for name, script := range map[string]string{
		"bytes": `head -c 180M /dev/zero >f; for i in $(seq 40); do head -c 1M /dev/zero >f$i || exit 3; sleep 0.1; done; echo ALL`,
		"files": `for i in $(seq 20000); do : >f$i || exit 3; [ $i -lt 18500 ] || [ $((i % 20)) -gt 0 ] || sleep 0.05; done; echo ALL`,
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
			// To clean up is possible, to go on is not; and not even that when half of the reserve is gone.
			on := `for i in $(seq 50); do head -c 100k /dev/zero >more$i; for j in $(seq 20); do : >more$i-$j; done; sleep 0.1; done; sleep 10; echo ALL`
			if o := try(t, without{}, s, on); o.Reason != HostDiskLow || o.says("ALL") {
				t.Errorf("the next command: %s, %v: %s", o.Reason, o.Observations, o.out)
			}
			if o := try(t, without{}, s, `rm -f more*; echo CLEAN`); o.Reason != Exited || !o.says("CLEAN") {
				t.Errorf("a full disk could not be cleaned up: %s, %v: %s", o.Reason, o.Observations, o.out)
			}
			if name == "bytes" {
				var fs unix.Statfs_t
				if err := unix.Statfs(disk, &fs); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(disk, "others"), make([]byte, free(fs).Bytes-mib), 0o600); err != nil {
					t.Fatal(err)
				}
				if o := try(t, without{}, s, `echo BEGAN`); o.Reason != HostDiskLow || o.says("BEGAN") || len(o.Observations) != 1 {
					t.Errorf("below half: %s, %v: %s", o.Reason, o.Observations, o.out)
				}
				if err := os.Remove(filepath.Join(disk, "others")); err != nil {
					t.Fatal(err)
				}
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
	disk := smallDisk(t, "size=200m")
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
	const script = `cat a; head -c 180M /dev/zero >f; for i in $(seq 40); do head -c 1M /dev/zero >f$i || exit 3; sleep 0.1; done; echo ALL`
	if out, res := inLayers(t, s, script); res.Reason != HostDiskLow {
		t.Errorf("ended with %+v\n%s", res, out)
	}
	if out, res := inLayers(t, s, "rm f*; cat a"); res.Reason != Exited || out != "lower/a\n" {
		t.Errorf("the next command, which cleans up: %+v\n%s", res, out)
	}
}
