package jail

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupPrefix begins the name of every control group that we make: prefix, name of the run, a dot, something random.
const groupPrefix = "sandpiper-"

// group is a control group for one tree: one directory on the unified hierarchy (v2), or one for each controller (v1). It
// may hold one of the two limits only, or none.
type group struct {
	memory, pids string // directories, the same on v2; empty where there is no such limit
	dirs         []string
	locks        []*os.File // a held lock says that the tree is alive: see Sweep
	v2           *os.File   // the one of dirs that is of version 2, opened
	v1           []string   // those of version 1
}

// newGroup makes a group below the one that we are in, so that limits above us hold on. It takes what the machine gives:
// where nothing can be made, the group is empty, and the watcher has the work. What an earlier launcher of the same run has
// left behind because it was killed goes on the way.
func newGroup(name string, l Limits) *group { return newGroupAt(name, leafOf(name), l) }

func newGroupAt(name, leaf string, l Limits) *group {
	g := &group{}
	for _, h := range hierarchies("/proc/self") {
		for _, base := range h.bases {
			stale, _ := filepath.Glob(filepath.Join(base, groupPrefix+name+".*"))
			for _, dir := range stale {
				_, _ = sweepGroup(dir)
			}
			if g.try(h, filepath.Join(base, leaf), l) {
				break
			}
		}
	}
	return g
}

// leafOf names a group of one run, of which there may be several.
func leafOf(name string) string { return groupPrefix + name + "." + strings.ToLower(rand.Text()[:8]) }

func (g *group) try(h hierarchy, dir string, l Limits) bool {
	lock, err := makeGroup(dir)
	if err != nil {
		return false
	}
	// A little less than the limit: who adds up the processes from outside counts what they share more than once.
	most := before(l.Memory, 128<<20)
	memory := h.has("memory") && writeFile(dir, h.pick("memory.max", "memory.limit_in_bytes"), most)
	pids := h.has("pids") && writeFile(dir, "pids.max", int64(l.Procs)+1) // and bubblewrap's own, outside
	if !memory && !pids {
		_ = os.Remove(dir)
		_ = lock.Close()
		return false
	}
	if memory {
		g.memory = dir
		// Without swap: what was swapped out would not be counted. Not every kernel has the file.
		_ = writeFile(dir, h.pick("memory.swap.max", "memory.memsw.limit_in_bytes"), h.pickInt(0, most))
	}
	if pids {
		g.pids = dir
	}
	g.dirs, g.locks = append(g.dirs, dir), append(g.locks, lock)
	if h.v2 {
		g.v2 = lock
	} else {
		g.v1 = append(g.v1, dir)
	}
	return true
}

// makeGroup makes a group and takes its lock. Between the two somebody who sweeps may take it for a dead one's; then it is made
// again.
func makeGroup(dir string) (lock *os.File, err error) {
	for range 10 {
		if err = os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if lock, err = os.Open(dir); err != nil {
			continue
		}
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); err == nil {
			if _, err = os.Stat(dir); err == nil {
				return lock, nil
			}
		}
		_ = lock.Close()
	}
	return nil, err
}

// start starts a process that is born in the group: to move one waits for a grace period of the kernel, some milliseconds. Version 2
// does that by a flag of clone3(2); in version 1 a child is where the thread is that makes it, and a thread which moves itself
// alone does not wait (cgroup_procs_write_start in kernel/cgroup/cgroup.c). The calling thread must be locked.
func (g *group) start(program string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if g.v2 != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(g.v2.Fd())
	}
	for _, dir := range g.v1 {
		if err := moveThread(dir); err != nil {
			return nil, err
		}
		defer func() { _ = moveThread(filepath.Dir(dir)) }() // or it goes when the thread ends, and the group is removed later
	}
	return os.StartProcess(program, argv, attr)
}

func moveThread(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "tasks"), []byte("0"), 0); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}

// count reads a number by name from a file of events, such as oom_kill.
func count(dir string, files []string, name string) int {
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key == name {
				n, _ := strconv.Atoi(value)
				return n
			}
		}
	}
	return 0
}

func (g *group) oomKills() int {
	if g.memory == "" {
		return 0
	}
	n := 0
	for _, dir := range append(below1(g.memory), g.memory) {
		n += count(dir, []string{"memory.events.local", "memory.events", "memory.oom_control"}, "oom_kill")
	}
	return n
}

// below1 are the groups that a runtime has made below one of ours.
func below1(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var found []string
	for _, e := range entries {
		if e.IsDir() { // and not a file for each control
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found
}

func (g *group) forksRefused() int {
	if g.pids == "" {
		return 0
	}
	return count(g.pids, []string{"pids.events"}, "max")
}

// remove takes the group away. A process that is still in it is reported: it outlived the tree.
func (g *group) remove() error {
	var errs []error
	for i, dir := range g.dirs {
		errs = append(errs, removeGroup(dir))
		_ = g.locks[i].Close()
	}
	return errors.Join(errs...)
}

// removeGroup waits a little: the kernel lets go of the last process some moments after it was reaped.
func removeGroup(dir string) error {
	deadline := time.NewTimer(2 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		for _, inner := range below1(dir) {
			_ = os.Remove(inner)
		}
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-deadline.C:
			return fmt.Errorf("control group: %w", err)
		case <-again.C:
		}
	}
}

// Sweep removes the control groups of runs whose launcher was killed, and returns them. It can run beside live ones: a
// launcher holds a lock on its groups for as long as it lives.
func Sweep(ctx context.Context) (removed []string, err error) {
	var errs []error
	for _, h := range hierarchies("/proc/self") {
		_ = filepath.WalkDir(h.mount, func(path string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil || !d.IsDir() {
				return nil // gone meanwhile, or not ours to read
			}
			if !strings.HasPrefix(d.Name(), groupPrefix) {
				return nil
			}
			if gone, err := sweepGroup(path); err != nil {
				errs = append(errs, err)
			} else if gone {
				removed = append(removed, path)
			}
			return fs.SkipDir
		})
	}
	return removed, errors.Join(append(errs, ctx.Err())...)
}

func sweepGroup(dir string) (gone bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false, nil
	}
	// The launcher is dead, and the tree dies with it. What is left here has no one else to end it.
	for _, at := range append(below1(dir), dir) {
		procs, _ := os.ReadFile(filepath.Join(at, "cgroup.procs"))
		for _, field := range strings.Fields(string(procs)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	removeElsewhere(containerOf(filepath.Base(dir)))
	if err := removeGroup(dir); err != nil {
		return false, err
	}
	return true, nil
}

// hierarchy is a mounted tree of control groups.
type hierarchy struct {
	v2          bool
	mount       string
	controllers []string
	bases       []string // where a group could be made: our own, and on v2 those above it, nearest first
}

func (h hierarchy) has(controller string) bool {
	return h.v2 || slices.Contains(h.controllers, controller)
}

func (h hierarchy) pick(v2, v1 string) string {
	if h.v2 {
		return v2
	}
	return v1
}

func (h hierarchy) pickInt(v2, v1 int64) int64 {
	if h.v2 {
		return v2
	}
	return v1
}

// hierarchies reads where control groups are mounted and which ones we are in (proc is /proc/self).
//
// On v2 a group that has processes cannot have controlled children, so the one that we are in is usually not the place;
// one above it may be, where it was delegated to us: systemd delegates user@.service to its user.
func hierarchies(proc string) []hierarchy {
	own := map[string]string{} // "memory", "pids", "" for v2 -> path
	for line := range lines(filepath.Join(proc, "cgroup")) {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		for _, controller := range strings.Split(fields[1], ",") {
			own[controller] = fields[2]
		}
	}
	var out []hierarchy
	for line := range lines(filepath.Join(proc, "mountinfo")) {
		left, right, ok := strings.Cut(line, " - ")
		fields, more := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(more) < 3 {
			continue
		}
		root, mount := fields[3], fields[4]
		switch more[0] {
		case "cgroup":
			options := strings.Split(more[2], ",")
			for _, controller := range []string{"memory", "pids"} {
				if at, ok := own[controller]; ok && slices.Contains(options, controller) {
					out = append(out, hierarchy{mount: mount, controllers: []string{controller}, bases: []string{below(mount, root, at)}})
				}
			}
		case "cgroup2":
			at, ok := own[""]
			if !ok {
				continue
			}
			h := hierarchy{v2: true, mount: mount}
			for dir := below(mount, root, at); strings.HasPrefix(dir, mount); dir = filepath.Dir(dir) {
				h.bases = append(h.bases, dir)
			}
			out = append(out, h)
		}
	}
	return out
}

// below is where the group at lies, when the mount shows the hierarchy from root on.
func below(mount, root, at string) string {
	if rel, err := filepath.Rel(root, at); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.Join(mount, rel)
	}
	return mount
}

func lines(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

func writeFile(dir, name string, value int64) bool {
	return os.WriteFile(filepath.Join(dir, name), []byte(strconv.FormatInt(value, 10)), 0) == nil
}
