package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Run runs a command and returns after the last process of its tree is dead, also when the context ends. The error says
// that nothing was run: it wraps ErrUnavailable, is a *NotStarted, or names what is wrong with the spec. A command that ended
// badly is a Result, and so is one for which the disk has no room (HostDiskLow).
func Run(ctx context.Context, s Spec, std Stdio) (Result, error) { return run(ctx, s, std, without{}) }

func run(ctx context.Context, s Spec, std Stdio, w without) (Result, error) {
	if err := s.check(); err != nil {
		return Result{Reason: FailedToStart}, err
	}
	r := &runner{limits: s.Limits.withDefaults(), over: make(chan struct{}), result: Result{Started: time.Now()}}
	room := fullness(s.writable())
	if _, low := margin(room, keeps(room)); low != "" && !w.watch {
		r.end(HostDiskLow, low)
		r.result.Reason, r.result.Code, r.result.Ended = HostDiskLow, -1, r.result.Started
		return r.result, nil
	}
	uid := identity(s.UID)
	streams, files, err := r.streams(std, uid)
	if err != nil {
		return Result{Reason: FailedToStart}, err
	}
	begin, g := start, &group{}
	if s.Runtime != nil {
		begin = startRuntime
	} else if !w.cgroup {
		g = newGroup(s.Name, r.limits)
	}
	t, err := begin(s, r.limits, uid, files, g, w)
	for _, f := range files {
		_ = f.Close()
	}
	if err != nil {
		streams.abandon()
		return Result{Reason: FailedToStart}, errors.Join(err, g.remove())
	}
	stop := context.AfterFunc(ctx, func() { r.end(Cancelled, "") })
	defer stop()
	return r.supervise(s, t, g, streams, w)
}

// runner follows one tree from its start to its end.
type runner struct {
	limits Limits

	once   sync.Once
	over   chan struct{} // closed when the tree has to be ended, for reason
	reason Reason

	result Result
}

// end asks for the end of the tree. The first reason counts.
func (r *runner) end(reason Reason, evidence string) {
	r.once.Do(func() {
		r.reason = reason
		if evidence != "" {
			r.note("host", "res."+string(reason), evidence)
		}
		close(r.over)
	})
}

// limit puts a held tree under its limits: those of each process, and of a runtime the control group.
func (r *runner) limit(s Spec, t *tree, g *group, w without) (_ *group, err error) {
	if s.Runtime != nil { // which gives limits to the processes itself, as it is told
		if !w.cgroup {
			g, err = groupForRuntime(s.Name, r.limits, t)
		}
		return g, errors.Join(err, yield(t.init))
	}
	if w.rlimits {
		return g, nil
	}
	uid := identity(s.UID)
	if w.uid {
		uid = 0
	}
	return g, setLimits(r.limits, uid, g.memory != "", t.monitor.Pid, t.init)
}

// supervise lets the held command begin under its limits, and sees it to its end.
func (r *runner) supervise(s Spec, t *tree, g *group, streams *streams, w without) (Result, error) {
	err := t.identify()
	err = t.turn.done(err, t.monitor)
	if handed := t.receive(); err == nil {
		err = handed
	}
	if err == nil {
		g, err = r.limit(s, t, g, w)
	}
	var watching, serving sync.WaitGroup
	if err == nil {
		if g.memory == "" {
			r.result.Watched = []string{"memory"}
		}
		if t.serve != nil {
			serving.Go(func() { s.Listen(t.serve) })
		}
		if !w.watch {
			watch := newWatch(s, r.limits, g.memory != "", t.init)
			// One of its own: that of the tree is closed when it has ended.
			var ended int
			if ended, err = unix.FcntlInt(uintptr(t.pidfd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
				watching.Go(func() {
					watch.loop(ended, r.end)
					_ = unix.Close(ended)
				})
			}
		}
	}
	if err == nil {
		t.release()
	} else {
		t.kill()
	}
	r.wait(t)
	gone := t.gone()
	watching.Wait()
	if t.serve != nil {
		_ = t.serve.Close()
	}
	serving.Wait()
	code := t.exitCode()
	_ = t.statusF.Close()
	message := streams.finish(code != nil)
	r.once.Do(func() {}) // from here on nobody changes the reason
	r.judge(code, g, streams)
	if leftErr := errors.Join(gone, g.remove()); leftErr != nil {
		r.note("host", "proc.survivor", leftErr.Error())
	}
	if t.runtime && err == nil && code == nil && r.reason == "" {
		return r.result, t.whyNot(s)
	}
	if err != nil || code == nil && r.reason == "" {
		return r.result, notStarted(err, message, s.Argv[0])
	}
	return r.result, nil
}

func (r *runner) note(observer, kind, evidence string) {
	r.result.Observations = append(r.result.Observations, Observation{Kind: kind, Evidence: evidence, Observer: observer})
}

// wait returns when the monitor has ended, and ends the tree when it is time.
func (r *runner) wait(t *tree) {
	wall := time.NewTimer(r.limits.Wall)
	defer wall.Stop()
	select {
	case <-t.ended:
		return
	case <-wall.C:
		r.end(TimedOut, "")
	case <-r.over:
	}
	t.kill()
	// The monitor ends when its child has; where it does not (it was stopped), it goes too.
	patience := time.NewTimer(2 * time.Second)
	defer patience.Stop()
	select {
	case <-t.ended:
	case <-patience.C:
		_ = t.monitor.Kill()
		<-t.ended
	}
}

// judge turns what is known at the end into the result.
func (r *runner) judge(code *int, g *group, streams *streams) {
	res := &r.result
	res.Ended = time.Now()
	res.OutputBytes, res.Truncated = streams.total.Load(), streams.cut.Load()
	if n := g.oomKills(); n > 0 {
		r.note("kernel", "res.memory", fmt.Sprintf("the kernel ended %d processes at the limit of %d bytes", n, r.limits.Memory))
	}
	if n := g.forksRefused(); n > 0 {
		r.note("kernel", "res.pids", fmt.Sprintf("%d times no process could be made at the limit of %d", n, r.limits.Procs))
	}
	switch {
	case r.reason != "":
		res.Reason, res.Code = r.reason, -1
	case code == nil:
		res.Reason, res.Code = FailedToStart, -1
	case *code > 128 && *code <= 128+64:
		res.Reason, res.Code, res.Signal = Signaled, *code, syscall.Signal(*code-128).String()
		if *code == 128+int(unix.SIGKILL) && g.oomKills() > 0 {
			res.Reason = OutOfMemory
		}
		if *code == 128+int(unix.SIGSYS) {
			r.note("kernel", "sys.killed", "a system call of a foreign architecture")
		}
	default:
		res.Reason, res.Code = Exited, *code
	}
}

// notStarted makes an error of what bubblewrap said.
func notStarted(err error, message, command string) error {
	message = strings.TrimSpace(strings.TrimPrefix(message, "bwrap: "))
	if rest, ok := strings.CutPrefix(message, "execvp "); ok {
		code := 126
		if strings.HasSuffix(rest, syscall.ENOENT.Error()) || strings.HasSuffix(rest, "No such file or directory") {
			code = 127
		}
		return &NotStarted{code, rest}
	}
	if strings.HasPrefix(message, "Can't chdir") {
		return &NotStarted{126, message}
	}
	if message == "" && err == nil {
		return fmt.Errorf("%s: bubblewrap ended without a word", command)
	}
	if message == "" {
		return err
	}
	return fmt.Errorf("%w: bubblewrap: %s", ErrUnavailable, message)
}

// identity is who the tree runs as.
func identity(uid int) int {
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	if uid <= 0 {
		return DefaultUID
	}
	return uid
}

// gidOf is the group that goes with a user of the tree.
func gidOf(uid int) int {
	if os.Geteuid() != 0 {
		return os.Getegid()
	}
	return uid
}

// setLimits gives processes their resource limits before they make others. Memory is by process here and of use only where
// no control group counts all of them.
func setLimits(l Limits, uid int, counted bool, pids ...int) error {
	both := func(v uint64) unix.Rlimit { return unix.Rlimit{Cur: v, Max: v} }
	limits := map[int]unix.Rlimit{
		unix.RLIMIT_NPROC: both(uint64(l.Procs)),
		unix.RLIMIT_FSIZE: both(uint64(l.FileSize)),
		// 1 and not 0: a core is then not even piped to a program of the host (core(5); fs/coredump.c).
		unix.RLIMIT_CORE: both(1),
	}
	if !counted {
		// Data that a process may write to: what is only reserved, as language runtimes do by the gigabyte, is free.
		limits[unix.RLIMIT_DATA] = both(uint64(2 * l.Memory))
	}
	return as(uid, func() error {
		if err := yield(pids...); err != nil {
			return err
		}
		return prlimit(limits, pids)
	})
}

// yield puts processes behind the launcher, so that whoever watches comes to its turn however busy the tree is: where the machine
// has other work, both become slower, and the tree more so.
func yield(pids ...int) error {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the kernel gives 20 less the nice value
	for _, pid := range pids {
		err = errors.Join(err, unix.Setpriority(unix.PRIO_PROCESS, pid, min(20-own+10, 19)))
	}
	if err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	return nil
}

func prlimit(limits map[int]unix.Rlimit, pids []int) error {
	for _, pid := range pids {
		for which, limit := range limits {
			var old unix.Rlimit
			if err := unix.Prlimit(pid, which, nil, &old); err != nil {
				return fmt.Errorf("resource limits: %w", err)
			}
			limit.Max = min(limit.Max, old.Max)
			limit.Cur = min(limit.Cur, limit.Max)
			if err := unix.Prlimit(pid, which, &limit, nil); err != nil {
				return fmt.Errorf("resource limits: %w", err)
			}
		}
	}
	return nil
}

// as does something with the identity of the tree. Root in a container often lacks CAP_SYS_RESOURCE, without which it may
// not limit the processes of another user; that user itself may. The thread that took the identity ends with it.
func as(uid int, do func() error) error {
	if os.Geteuid() == uid {
		return do()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		id, group := uintptr(uid), uintptr(gidOf(uid))
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, group, group, group); errno != 0 {
			done <- fmt.Errorf("group of the tree: %w", errno)
			return
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
			done <- fmt.Errorf("user of the tree: %w", errno)
			return
		}
		done <- do()
	}()
	return <-done
}

// writable are the host directories that a spec lets the tree write.
func (s Spec) writable() []string {
	var out []string
	for _, m := range s.mounts() {
		if info, err := os.Lstat(m.Host); m.Writable && err == nil && info.IsDir() && !slices.Contains(out, m.Host) {
			out = append(out, m.Host)
		}
	}
	return out
}
