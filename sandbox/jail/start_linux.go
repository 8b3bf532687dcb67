package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// tree is a started process tree: bubblewrap, which watches from outside, and the first process of the pid namespace.
// Until release it waits before the command.
type tree struct {
	monitor *os.Process
	init    int      // pid of the first process inside, as the host sees it
	pidfd   int      // of init: -1 until it is known
	hold    *os.File // bubblewrap reads from it before it goes on
	status  *json.Decoder
	statusF *os.File
	serve   net.Listener  // in the network namespace of the tree; nil: nothing is served there
	handed  *os.File      // where the stage hands it over, for an ordinary user
	ended   chan struct{} // closed when the monitor was waited for
	turn    *turn         // the turn to mount overlays, until they are there
	group   *group        // that the monitor is born in

	runtime bool         // the monitor is a runtime's, and the first process at once
	leaf    string       // the name of its control group
	after   func() error // called when the monitor has ended, on its thread; what it says is in failed
	failed  error

	notStarted int // the status of a command that could not be executed, where a runtime has said so; 1: for want of its directory
}

// status is what bubblewrap writes to --json-status-fd.
type status struct {
	ChildPID *int   `json:"child-pid"`
	PIDNS    uint64 `json:"pid-namespace"`
	ExitCode *int   `json:"exit-code"`

	// By a runtime.
	NotStarted int  `json:"not-started"`
	Begun      bool `json:"begun"`
}

// launch collects what bubblewrap is started with: arguments that name descriptors, and those, in the order of their numbers.
type launch struct {
	files   closers
	inherit []*os.File
	args    []string
}

// pass adds an option that reads content from a descriptor.
func (l *launch) pass(content []byte, option string, more ...string) error {
	f, err := l.files.memory(option, content)
	if err != nil {
		return err
	}
	l.args = append(append(l.args, option, strconv.Itoa(len(l.inherit))), more...)
	l.inherit = append(l.inherit, f)
	return nil
}

func (l *launch) passFilter(w without) error {
	if w.seccomp {
		return nil
	}
	program, err := filter()
	if w.guard {
		program, err = assemble(w)
	}
	if err != nil {
		return err
	}
	return l.pass(program, "--seccomp")
}

// start begins bubblewrap with the three standard streams given and returns once it runs.
func start(s Spec, l Limits, uid int, stdio [3]*os.File, g *group, w without) (*tree, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, fmt.Errorf("%w: bubblewrap (bwrap) is not installed", ErrUnavailable)
	}
	var with launch
	defer func() { with.files.close() }()
	statusR, statusW, err := with.files.pipe()
	if err != nil {
		return nil, err
	}
	holdR, holdW, err := with.files.pipe()
	if err != nil {
		return nil, err
	}
	with.inherit = []*os.File{stdio[0], stdio[1], stdio[2], statusW, holdR}
	with.args = []string{"--json-status-fd", "3", "--block-fd", "4"}
	if err := with.passFilter(w); err != nil {
		return nil, err
	}
	t := &tree{pidfd: -1, ended: make(chan struct{}), hold: holdW, statusF: statusR, status: json.NewDecoder(statusR), group: g}
	begun := make(chan error)
	go t.live(begun, func() (*os.Process, error) { return t.begin(bwrap, &with, s, l, uid, w) })
	if err := <-begun; err != nil {
		err = t.turn.done(err, nil)
		if t.serve != nil {
			_ = t.serve.Close()
		}
		return nil, err
	}
	with.files.keep(statusR, holdW)
	if t.handed != nil {
		with.files.keep(t.handed)
	}
	return t, nil
}

// begin makes the mounts and the network that the tree will have, and executes bubblewrap. It runs on the thread of live.
func (t *tree) begin(bwrap string, with *launch, s Spec, l Limits, uid int, w without) (*os.Process, error) {
	over := overlays(s.mounts())
	var err error
	if t.turn, err = takeTurn(over); err != nil {
		return nil, err
	}
	if err := t.turn.enter(); err != nil {
		return nil, err
	}
	staged, err := stage(s.mounts(), uid)
	if err != nil {
		return nil, err
	}
	if s.Listen != nil && os.Geteuid() == 0 {
		if t.serve, err = ownNetwork(); err != nil {
			return nil, err
		}
	}
	args, contents, err := bwrapArgs(s, l, uid, staged, w)
	if err != nil {
		return nil, err
	}
	for path, content := range contents {
		with.args = append(with.args, "--perms", "0644")
		if err := with.pass([]byte(content), "--file", path); err != nil {
			return nil, err
		}
	}
	// The files first: the root is read-only at the end of the list.
	list, err := with.files.memory("args", []byte(strings.Join(append(with.args, args...), "\x00")+"\x00"))
	if err != nil {
		return nil, err
	}
	argv := append([]string{"bwrap", "--args", strconv.Itoa(len(with.inherit)), "--"}, s.Argv...)
	with.inherit = append(with.inherit, list)
	if os.Geteuid() == 0 || len(over) == 0 && s.Listen == nil {
		return t.execute(bwrap, argv, with.inherit, uid, w)
	}
	return t.executeWithin(bwrap, argv, with, over, s.Listen != nil, w)
}

// live starts bubblewrap and waits for its end, on a thread of its own: the kernel kills bubblewrap when the thread that
// started it ends (PR_SET_PDEATHSIG), and on this thread alone the umask and the mounts are other ones. It is never
// unlocked, so the thread ends with the tree.
func (t *tree) live(begun chan<- error, begin func() (*os.Process, error)) {
	defer close(t.ended)
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		begun <- fmt.Errorf("own umask: %w", err)
		return
	}
	unix.Umask(0o022)
	p, err := begin()
	t.monitor = p
	begun <- err
	if err == nil {
		_, _ = p.Wait() // how it ended is in the status that it wrote
	}
	if err == nil && t.after != nil {
		t.failed = t.after()
	}
}

func (t *tree) execute(program string, argv []string, inherit []*os.File, uid int, w without) (*os.Process, error) {
	return t.startProcess(program, argv, attributes(inherit, uid, w), w)
}

func attributes(inherit []*os.File, uid int, w without) *os.ProcAttr {
	attr := &os.ProcAttr{
		Dir:   "/",
		Env:   []string{}, // not nil, which would be ours: the first process inside shows it as /proc/1/environ
		Files: inherit,
		Sys:   &syscall.SysProcAttr{Setsid: !w.session},
	}
	if w.environment {
		attr.Env = nil
	}
	if !w.parent {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	if os.Geteuid() == 0 && !w.uid {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gidOf(uid))}
	}
	return attr
}

func (t *tree) startProcess(program string, argv []string, attr *os.ProcAttr, w without) (*os.Process, error) {
	if !w.closeFDs {
		// What we inherited without close-on-exec would be inherited again; bubblewrap closes nothing.
		if err := unix.CloseRange(3, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
			return nil, fmt.Errorf("close descriptors: %w", err)
		}
	}
	p, err := t.group.start(program, argv, attr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return p, nil
}

// stage makes the sources of mounts reachable for the user that the tree runs as. An ordinary user reaches its own files.
// Root's directories may be closed to it (that is how those of a run are kept from other users), and bubblewrap
// resolves its sources as that user: so root binds them, in a mount namespace of this thread, below a directory that is open.
func stage(mounts []Mount, uid int) ([]Mount, error) {
	for _, m := range mounts {
		info, err := os.Lstat(m.Host)
		if err != nil {
			return nil, fmt.Errorf("mount at %s: %w", m.Inside, err)
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			return nil, fmt.Errorf("mount at %s: %s is neither a file nor a directory", m.Inside, m.Host)
		}
	}
	if os.Geteuid() != 0 || len(mounts) == 0 {
		return mounts, nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("%w: own mounts: %w", ErrUnavailable, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("private mounts: %w", err)
	}
	if err := mountHere(mounts); err != nil {
		return nil, err
	}
	sources := make([]int, len(mounts))
	for i, m := range mounts {
		fd, err := unix.Open(m.Host, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("mount at %s: %s: %w", m.Inside, m.Host, err)
		}
		defer unix.Close(fd)
		sources[i] = fd
	}
	open, err := stagingDir()
	if err != nil {
		return nil, err
	}
	out := make([]Mount, len(mounts))
	for i, m := range mounts {
		out[i] = Mount{Host: filepath.Join(open, strconv.Itoa(i)), Inside: m.Inside, Writable: m.Writable}
		if err := bindFD(sources[i], out[i].Host); err != nil {
			return nil, fmt.Errorf("mount at %s: %s: %w", m.Inside, m.Host, err)
		}
	}
	return out, nil
}

// stagingDir covers a directory that every Linux has and no toolchain needs. Only this thread and its children see it.
func stagingDir() (string, error) {
	var errs []error
	for _, dir := range []string{"/mnt", "/media", "/srv"} {
		err := unix.Mount("sandpiper", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0755")
		if err == nil {
			return dir, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", dir, err))
	}
	return "", fmt.Errorf("%w: staging: %w", ErrUnavailable, errors.Join(errs...))
}

func bindFD(fd int, at string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
	} else if err := os.WriteFile(at, nil, 0o644); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/fd/"+strconv.Itoa(fd), at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, "")
}
