package jail

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestCheckSystemPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"tool/bin", "home/.ssh", "home/.config/gh"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"to-root": "/", "to-home": "/home", "to-etc": "/etc", "to-ssh": filepath.Join(dir, "home/.ssh")} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{"/usr/share", "/etc/passwd", filepath.Join(dir, "tool"), filepath.Join(dir, "tool/bin")} {
		if err := CheckSystemPath(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"/", "//", "/usr/..", "/etc", "/etc/shadow", "/root", "/home", "/home/x", "/var", "/var/lib", "/proc", "/run", "/dev", "relative", "/nosuch",
		"home/.ssh", "home/.config", "home/.config/gh", "to-root", "to-home", "to-etc", "to-ssh", "fifo", "tool/../home/.ssh"} {
		if !strings.HasPrefix(bad, "/") && bad != "relative" {
			bad = dir + "/" + bad
		}
		if CheckSystemPath(bad) == nil {
			t.Errorf("%s is allowed", bad)
		}
	}
}

func TestSystemPathIsVisible(t *testing.T) {
	needJail(t)
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(dir, "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\necho it works\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := try(t, without{}, Spec{System: []string{dir}}, tool+`; echo bad >>`+tool+` || echo read-only`)
	if !o.says("it works") || !o.says("read-only") {
		t.Errorf("printed %s", o.out)
	}
}

// hierarchies is told where groups are by files that have the form of those in /proc/self.
func TestHierarchies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cgroup, mountinfo string
		want              []hierarchy
	}{
		"v2": {"0::/user.slice/user-1000.slice/app.scope\n", "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			[]hierarchy{{v2: true, mount: "/sys/fs/cgroup", bases: []string{"/sys/fs/cgroup/user.slice/user-1000.slice/app.scope",
				"/sys/fs/cgroup/user.slice/user-1000.slice", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}}}},
		"v1 and a v2 without controllers": {"5:memory:/a/b\n4:pids:/\n3:cpu,cpuacct:/x\n0::/\n",
			"1 2 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n2 2 0:2 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
				"3 2 0:3 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n4 2 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			[]hierarchy{{mount: "/sys/fs/cgroup/memory", controllers: []string{"memory"}, bases: []string{"/sys/fs/cgroup/memory/a/b"}},
				{mount: "/sys/fs/cgroup/pids", controllers: []string{"pids"}, bases: []string{"/sys/fs/cgroup/pids"}},
				{v2: true, mount: "/sys/fs/cgroup/unified", bases: []string{"/sys/fs/cgroup/unified"}}}},
		"a container that sees its own group as the root": {"0::/docker/1\n", "30 24 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			[]hierarchy{{v2: true, mount: "/sys/fs/cgroup", bases: []string{"/sys/fs/cgroup"}}}},
		"none": {"", "", nil},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"cgroup": c.cgroup, "mountinfo": c.mountinfo} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(c.want, hierarchies(dir), cmp.AllowUnexported(hierarchy{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// Sweep takes the groups of dead launchers, with what still lives in them, and leaves those of live ones.
func TestSweep(t *testing.T) {
	live, dead := newGroup("sweep-live", Limits{}.withDefaults()), newGroup("sweep-dead", Limits{}.withDefaults())
	if len(live.dirs) == 0 {
		t.Skip("no control group can be made here")
	}
	for _, lock := range dead.locks { // as the kernel does when a process is killed
		lock.Close()
	}
	removed, err := Sweep(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dead.dirs {
		if _, err := os.Stat(dir); err == nil || !strings.Contains(strings.Join(removed, "\n"), dir) {
			t.Errorf("%s is left, removed: %v", dir, removed)
		}
	}
	for _, dir := range live.dirs {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("that of a live one: %v", err)
		}
	}
	if err := live.remove(); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	needJail(t)
	r, err := Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || len(r.Items) != 6 {
		t.Errorf("got %+v", r)
	}
}

// Who makes a group beside somebody who sweeps gets one all the same: it would otherwise run without a limit.
func TestSweepBesideMakers(t *testing.T) {
	probe := newGroup("sweep-race", Limits{}.withDefaults())
	want := len(probe.dirs)
	if err := probe.remove(); err != nil {
		t.Fatal(err)
	}
	if want == 0 {
		t.Skip("no control group can be made here")
	}
	stop := make(chan struct{})
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = Sweep(context.Background())
			}
		}
	})
	for range 100 {
		g := newGroup("sweep-race", Limits{}.withDefaults())
		if len(g.dirs) != want {
			t.Errorf("a group has %d directories, want %d", len(g.dirs), want)
		}
		if err := g.remove(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	sweeping.Wait()
}
