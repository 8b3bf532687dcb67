package jail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A machine has one version of control groups. The other one is tried here on directories: what is written to which file, and what
// is read back. https://docs.kernel.org/admin-guide/cgroup-v2.html, .../cgroup-v1/memory.html
func TestGroupOfEachVersion(t *testing.T) {
	t.Parallel()
	limits := Limits{Procs: 7, Memory: 1 << 30}
	for _, c := range []struct {
		name   string
		h      hierarchy
		want   map[string]string
		events map[string]string // what the kernel then has
	}{
		{"version 2", hierarchy{v2: true},
			map[string]string{"memory.max": "1006632960", "memory.swap.max": "0", "pids.max": "8"},
			map[string]string{"memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n", "pids.events": "max 5\n"}},
		{"version 1, memory", hierarchy{controllers: []string{"memory"}},
			map[string]string{"memory.limit_in_bytes": "1006632960", "memory.memsw.limit_in_bytes": "1006632960"},
			map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"}},
		{"version 1, processes", hierarchy{controllers: []string{"pids"}}, map[string]string{"pids.max": "8"}, map[string]string{"pids.events": "max 5\n"}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "sandpiper-a.1")
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for name := range c.want { // the kernel makes them with the directory
				write(name, "max")
			}
			g := &group{}
			if !g.try(c.h, dir, limits) {
				t.Fatal("no group")
			}
			for _, l := range g.locks {
				defer l.Close()
			}
			got := map[string]string{}
			for name := range c.want {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Error(err)
				}
				got[name] = string(text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if c.h.v2 != (g.v2 != nil) || c.h.v2 == slices.Contains(g.v1, dir) {
				t.Errorf("version 2: %v, version 1: %q", g.v2, g.v1)
			}
			memory, pids := g.memory != "", g.pids != ""
			for name, text := range c.events {
				write(name, text)
			}
			if got := g.oomKills(); memory && got != 2 || !memory && got != 0 {
				t.Errorf("%d processes ended for want of memory", got)
			}
			if got := g.forksRefused(); pids && got != 5 || !pids && got != 0 {
				t.Errorf("%d forks refused", got)
			}
		})
	}
}

// Below a group that has processes, version 2 gives no controllers: the files of the limits are not there. What cannot be limited
// is not made, and the next group above is tried.
func TestGroupWithoutControllers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root writes everywhere: no directory of a file system is like one without controllers")
	}
	base := t.TempDir()
	if err := os.Chmod(base, 0o500); err != nil {
		t.Fatal(err)
	}
	g := &group{}
	dir := filepath.Join(base, "sandpiper-a.1")
	if g.try(hierarchy{v2: true}, dir, Limits{}.withDefaults()) || g.memory != "" || len(g.dirs) > 0 {
		t.Errorf("a group was made where none can be: %+v", g)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
