package jail

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What the fastest tree can do, from which the next look is planned: at half the time in which the rest of a limit could
// be used up. Measured on two cores with an SSD: 1.6 GB/s and 90,000 files/s written, 3 GB/s of memory touched.
const (
	bytesPerSecond  = 2 << 30
	filesPerSecond  = 100_000
	memoryPerSecond = 4 << 30

	soonest = time.Millisecond
	latest  = 250 * time.Millisecond
)

// watch looks at what no limit of the kernel holds: the growth of directories on the host's disk and, where there is no
// control group for it, the memory of all processes together. It ends the tree a little (a sixteenth, at most 64 MiB or
// 1,000 files) before a limit, for it sees late.
type watch struct {
	limits   Limits
	dirs     []string
	base     Usage
	measured bool // base is known
	pidns    string
	memory   bool // whether memory is to be watched

	grown    Usage // at the last walk
	room     []unix.Statfs_t
	walked   time.Time
	walkTook time.Duration
}

func newWatch(s Spec, l Limits, memoryCounted bool, init int) *watch {
	w := &watch{limits: l, dirs: s.writable(), base: s.Used, measured: s.Used != Usage{}, memory: !memoryCounted}
	w.pidns, _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if !w.measured { // before the command begins
		w.base, _ = Measure(w.dirs...)
		w.measured = true
	}
	return w
}

// loop looks until finished is closed or a limit is reached, which it tells to end.
func (w *watch) loop(finished <-chan struct{}, end func(Reason, string)) {
	timer := time.NewTimer(soonest)
	defer timer.Stop()
	for {
		select {
		case <-finished:
			return
		case <-timer.C:
		}
		next, reason, evidence := w.look(time.Now())
		if reason != "" {
			end(reason, evidence)
			return
		}
		timer.Reset(next)
	}
}

func (w *watch) look(now time.Time) (next time.Duration, reason Reason, evidence string) {
	next = latest
	if len(w.dirs) > 0 {
		if w.mustWalk(now) {
			w.walk(now)
		}
		bytesLeft := before(w.limits.Disk, 64<<20) - w.grown.Bytes
		filesLeft := before(int64(w.limits.Files), 1000) - int64(w.grown.Files)
		switch {
		case bytesLeft <= 0:
			return 0, TooMuchDisk, fmt.Sprintf("%d bytes written to the disk, the limit is %d", w.grown.Bytes, w.limits.Disk)
		case filesLeft <= 0:
			return 0, TooManyFiles, fmt.Sprintf("%d files made, the limit is %d", w.grown.Files, w.limits.Files)
		}
		next = min(next, plan(bytesLeft, bytesPerSecond), plan(filesLeft, filesPerSecond))
	}
	if w.memory {
		used := w.memoryInUse()
		left := before(w.limits.Memory, 128<<20) - used
		if left <= 0 {
			return 0, OutOfMemory, fmt.Sprintf("%d bytes of memory in use, the limit is %d", used, w.limits.Memory)
		}
		next = min(next, plan(left, memoryPerSecond))
	}
	return next, "", ""
}

// before is where the watcher ends a tree.
func before(limit, most int64) int64 { return limit - min(limit/16, most) }

func plan(left, perSecond int64) time.Duration {
	seconds := float64(left) / float64(perSecond) / 2
	return time.Duration(min(max(seconds, soonest.Seconds()), latest.Seconds()) * float64(time.Second))
}

// mustWalk says whether the directories could have grown much since they were last walked. A walk of a large tree takes tens
// of milliseconds, asking the file systems how full they are takes microseconds; and nothing grows without their getting
// fuller, but for what others free meanwhile. So there is a walk now and then whatever they say.
func (w *watch) mustWalk(now time.Time) bool {
	room := make([]unix.Statfs_t, len(w.dirs))
	for i, dir := range w.dirs {
		_ = unix.Statfs(dir, &room[i])
	}
	if w.room == nil {
		w.room = room
		return true
	}
	if now.Sub(w.walked) > max(time.Second, 20*w.walkTook) {
		w.room = room
		return true
	}
	var bytesMore, filesMore int64
	for i, was := range w.room {
		bytesMore = max(bytesMore, (int64(was.Bfree)-int64(room[i].Bfree))*room[i].Bsize)
		filesMore = max(filesMore, int64(was.Ffree)-int64(room[i].Ffree))
		if room[i].Files == 0 { // btrfs does not count them
			filesMore = max(filesMore, int64(w.limits.Files))
		}
	}
	if bytesMore > (before(w.limits.Disk, 64<<20)-w.grown.Bytes)/4 || filesMore > (before(int64(w.limits.Files), 1000)-int64(w.grown.Files))/4 {
		w.room = room
		return true
	}
	return false
}

func (w *watch) walk(now time.Time) {
	u, err := Measure(w.dirs...)
	w.walked, w.walkTook = now, time.Since(now)
	if err == nil {
		w.grown = Usage{u.Bytes - w.base.Bytes, u.Files - w.base.Files}
	}
}

// memoryInUse adds up the memory of the processes in the namespace: quickly by what is resident, and where that comes
// near the limit by each one's share of it, for what a fork shares with its parent is there only once.
func (w *watch) memoryInUse() int64 {
	var pids []string
	var resident int64
	for _, pid := range processes() {
		if ns, err := os.Readlink(filepath.Join("/proc", pid, "ns/pid")); err != nil || ns != w.pidns {
			continue
		}
		pids = append(pids, pid)
		text, _ := os.ReadFile(filepath.Join("/proc", pid, "statm"))
		if fields := bytes.Fields(text); len(fields) > 1 {
			pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			resident += pages * int64(os.Getpagesize())
		}
	}
	if resident < before(w.limits.Memory, 128<<20) {
		return resident
	}
	var shared int64
	for _, pid := range pids {
		text, _ := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
		for line := range bytes.Lines(text) {
			fields := bytes.Fields(line)
			if len(fields) > 1 && (string(fields[0]) == "Pss_Anon:" || string(fields[0]) == "Pss_Shmem:") {
				kib, _ := strconv.ParseInt(string(fields[1]), 10, 64)
				shared += kib << 10
			}
		}
	}
	return shared
}

func processes() []string {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	pids := names[:0]
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' {
			pids = append(pids, name)
		}
	}
	return pids
}
