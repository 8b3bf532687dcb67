package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What the fastest tree is taken to do, from which the next look is planned: at half the time in which the rest of a limit
// could be used up. Single writers were seen at up to 2.8 GB/s into the page cache; a tree that is faster than this is caught
// by what is kept in reserve before the limit.
const (
	bytesPerSecond  = 2 << 30
	filesPerSecond  = 100_000
	memoryPerSecond = 4 << 30

	soonest = time.Millisecond
	latest  = 250 * time.Millisecond
)

// watch looks at what no limit of the kernel holds: the growth of directories on the host's disk and, where there is no
// control group for it, the memory of all processes together. It ends the tree a little before a limit, for it sees late.
// What it does not see without a control group: memory in files in memory and System V segments that nobody has mapped.
type watch struct {
	limits Limits
	dirs   []string
	base   Usage
	pidns  string // as /proc/<pid>/ns/pid says it
	memory bool   // whether memory is to be watched

	nested   bool            // the tree has a namespace below its own
	children map[string]bool // whether a namespace is that one

	keep     []Usage // of the file systems that dirs lie on
	allowed  Usage   // growth at which the tree is ended
	grown    Usage   // at the last walk
	room     []unix.Statfs_t
	walked   time.Time
	walkTook time.Duration
}

func newWatch(s Spec, l Limits, memoryCounted bool, init int) *watch {
	w := &watch{limits: l, dirs: s.writable(), memory: !memoryCounted, nested: s.Runtime != nil, children: map[string]bool{}}
	w.keep = keeps(fullness(w.dirs)) // before the command begins
	w.pidns, _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	// What shares our namespace cannot be told from ourselves and everybody else: it is never paused.
	if own, err := os.Readlink("/proc/self/ns/pid"); err != nil || own == w.pidns {
		w.pidns = ""
	}
	if s.Used != nil {
		w.base = *s.Used
	} else { // before the command begins
		w.base, _, _ = measure(true, w.dirs)
	}
	return w
}

// loop looks until the process that pidfd is of has ended or a limit is reached, which it tells to end. It has a thread of its own,
// which sleeps in the kernel: on a busy machine to wake it is then all that there is to wait for.
func (w *watch) loop(pidfd int, end func(Reason, string)) {
	runtime.LockOSThread() // and the thread ends with us
	hurry()
	for next := soonest; ; {
		timeout := unix.NsecToTimespec(next.Nanoseconds())
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, &timeout, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n > 0 || err != nil {
			return
		}
		var reason Reason
		var evidence string
		if next, reason, evidence = w.look(time.Now()); reason != "" {
			end(reason, evidence)
			return
		}
	}
}

// hurry asks for short turns that come soon. The scheduler of Linux 6.12 lets tasks have their turns the sooner the shorter they are,
// by which nobody gets more of the machine than before (sched_attr.sched_runtime, Documentation/scheduler/sched-eevdf.rst). An older one
// takes no notice.
func hurry() {
	if a, err := unix.SchedGetAttr(0, 0); err == nil && a.Policy == unix.SCHED_NORMAL {
		a.Runtime = uint64(100 * time.Microsecond)
		_ = unix.SchedSetAttr(0, a, 0)
	}
}

func (w *watch) look(now time.Time) (next time.Duration, reason Reason, evidence string) {
	next = latest
	if len(w.dirs) > 0 {
		left, reason, evidence := w.lookAtDisk(now)
		if reason != "" {
			return 0, reason, evidence
		}
		next = min(next, plan(left.Bytes, bytesPerSecond), plan(int64(left.Files), filesPerSecond))
	}
	if w.memory {
		used := w.memoryInUse()
		left := w.memoryAllowed() - used
		if left <= 0 {
			return 0, OutOfMemory, fmt.Sprintf("%d bytes of memory in use, the limit is %d", used, w.limits.Memory)
		}
		next = min(next, plan(left, memoryPerSecond))
	}
	return next, "", ""
}

// lookAtDisk says how much may still be written: of the limits, and of the file systems, which others fill as well.
//
// To walk a large tree takes tens of milliseconds, to ask the file systems how full they are takes microseconds, and
// nothing grows without their getting fuller. So there is a walk when they got fuller by a good part of what is left (or,
// for others may free something meanwhile, when some time has passed); and when they may get fuller by all that is left, the
// tree is paused for the walk, because it writes faster than one can count.
func (w *watch) lookAtDisk(now time.Time) (left Usage, reason Reason, evidence string) {
	rest := func() Usage { return Usage{w.allowed.Bytes - w.grown.Bytes, w.allowed.Files - w.grown.Files} }
	if w.walked.IsZero() {
		w.first(now)
	}
	room := fullness(w.dirs)
	free, low := margin(room, w.keep)
	if low != "" {
		return free, HostDiskLow, low
	}
	more := fuller(w.room, room)
	left = rest()
	if more.Bytes > left.Bytes/4 || more.Files > left.Files/4 || now.Sub(w.walked) > max(time.Second, 20*w.walkTook) {
		if !w.count(now, room, more, left) {
			return left, TooManyFiles, "what is written cannot be counted: directories move, though the tree is paused"
		}
		left = rest()
	} else {
		left.Bytes, left.Files = left.Bytes-more.Bytes, left.Files-more.Files
	}
	switch {
	case left.Bytes <= 0:
		return left, TooMuchDisk, fmt.Sprintf("%d bytes written to the disk, the limit is %d", w.grown.Bytes, w.limits.Disk)
	case left.Files <= 0:
		return left, TooManyFiles, fmt.Sprintf("%d files made, the limit is %d", w.grown.Files, w.limits.Files)
	}
	return Usage{min(left.Bytes, free.Bytes), min(left.Files, free.Files)}, "", ""
}

// count walks. The tree is paused for that if it could write too much meanwhile (the machine may be slow for us and not for the
// tree), or if what it does is in the way; and stays so if it is over a limit.
func (w *watch) count(now time.Time, room []unix.Statfs_t, more, left Usage) (done bool) {
	took := w.walkTook.Seconds()
	fast := more.Bytes+int64(took*bytesPerSecond) >= left.Bytes || more.Files+int(took*filesPerSecond) >= left.Files
	if !fast && w.walk(now, room, false) {
		return true
	}
	w.signal(unix.SIGSTOP)
	done = w.walk(now, room, true)
	if w.grown.Bytes < w.allowed.Bytes && w.grown.Files < w.allowed.Files {
		w.signal(unix.SIGCONT)
	}
	return done
}

// first finds out where the tree begins. In a workspace that an earlier command has filled up to its limit the next one may
// still run, to clean up for instance, but may add next to nothing.
func (w *watch) first(now time.Time) {
	w.walk(now, fullness(w.dirs), true)
	w.allowed = Usage{max(before(w.limits.Disk, 64<<20), w.grown.Bytes+1<<20), max(w.limits.Files-min(w.limits.Files/6, 5000), w.grown.Files+100)}
}

// fuller is by how much file systems got fuller, at most. Btrfs does not count files; there a walk tells by the time.
func fuller(was, is []unix.Statfs_t) (more Usage) {
	for i := range was {
		more.Bytes = max(more.Bytes, (int64(was[i].Bfree)-int64(is[i].Bfree))*is[i].Bsize)
		more.Files = max(more.Files, int(int64(was[i].Ffree)-int64(is[i].Ffree)))
	}
	return more
}

// walk counts, with what is open without a name. Done is false if that takes that the tree is paused.
func (w *watch) walk(now time.Time, room []unix.Statfs_t, paused bool) (done bool) {
	start := time.Now()
	u, missed, err := measure(paused, w.dirs)
	if errors.Is(err, errMoved) || missed && !paused {
		return false
	}
	held := w.held()
	w.room, w.walked, w.walkTook = room, now, time.Since(start)
	if err == nil {
		w.grown = Usage{u.Bytes + held.Bytes - w.base.Bytes, u.Files + held.Files - w.base.Files}
	}
	return true
}

// signal goes to all processes of the tree but the first, which no signal of its own namespace stops.
func (w *watch) signal(sig unix.Signal) {
	for _, pid := range w.processes() {
		if n, err := strconv.Atoi(pid); err == nil {
			_ = unix.Kill(n, sig)
		}
	}
}

// before is where the watcher ends a tree.
func before(limit, most int64) int64 { return limit - min(limit/16, most) }

func plan(left, perSecond int64) time.Duration {
	seconds := float64(left) / float64(perSecond) / 2
	return time.Duration(min(max(seconds, soonest.Seconds()), latest.Seconds()) * float64(time.Second))
}

// memoryAllowed is an eighth less than the limit: pages are touched faster than files are written, and on a busy machine the
// watcher comes to its turn late.
func (w *watch) memoryAllowed() int64 { return w.limits.Memory - min(w.limits.Memory/8, 256<<20) }

// memoryInUse adds up the memory of the processes in the namespace: quickly by what is resident, and where that is too
// much by each one's share of it, for what a fork shares with its parent is there only once. That takes a while, in which
// the tree is paused.
func (w *watch) memoryInUse() int64 {
	pids := w.processes()
	var resident int64
	for _, pid := range pids {
		text, _ := os.ReadFile(filepath.Join("/proc", pid, "statm"))
		if fields := bytes.Fields(text); len(fields) > 1 {
			pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			resident += pages * int64(os.Getpagesize())
		}
	}
	if resident < w.memoryAllowed() {
		return resident
	}
	w.signal(unix.SIGSTOP)
	var shares int64
	for _, pid := range w.processes() {
		shares += share(pid)
	}
	if shares < w.memoryAllowed() {
		w.signal(unix.SIGCONT)
	}
	return shares
}

// share is what a process takes of memory that cannot be given back: not files, which are in the cache.
func share(pid string) (bytesUsed int64) {
	text, _ := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) > 1 && (string(fields[0]) == "Pss_Anon:" || string(fields[0]) == "Pss_Shmem:") {
			kib, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			bytesUsed += kib << 10
		}
	}
	return bytesUsed
}

// processes are those in the namespace of the tree. A pid is looked at and then used: should it be another's by then, that
// one is not in the namespace, or has ended with it.
func (w *watch) processes() []string {
	if w.pidns == "" {
		return nil
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	pids := names[:0]
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if ns, err := os.Readlink(filepath.Join("/proc", name, "ns/pid")); err == nil && (ns == w.pidns || w.below(name, ns)) {
			pids = append(pids, name)
		}
	}
	return pids
}

// below says whether a namespace is a child of that of the tree: a runtime makes another one for the command.
func (w *watch) below(pid, ns string) bool {
	if !w.nested {
		return false
	}
	if is, known := w.children[ns]; known {
		return is
	}
	f, err := os.Open(filepath.Join("/proc", pid, "ns/pid"))
	if err != nil {
		return false
	}
	defer f.Close()
	parent, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.NS_GET_PARENT, 0)
	is := false
	if errno == 0 {
		link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", parent))
		_ = unix.Close(int(parent))
		is = link == w.pidns
	}
	w.children[ns] = is
	return is
}
