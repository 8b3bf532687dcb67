package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// behindRuntime is what the control groups hold beside the tree: threads of the runtime, which are not part of it.
const behindRuntime = 48

// hold waits for the go-ahead (nothing comes when the launcher has died), shows the process its own pid namespace, and becomes
// the runtime.
const hold = `read -r go <&7; [ -n "$go" ] || exit 1; exec 7<&-; mount -t proc proc /proc && exec "$@"`

// startRuntime begins a runtime as start begins bubblewrap.
func startRuntime(s Spec, l Limits, uid int, stdio [3]*os.File, g *group, w without) (*tree, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: a container needs root here: an ordinary user has no control groups to hold it by", ErrUnavailable)
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
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	with.files.files = append(with.files.files, null)
	with.inherit = []*os.File{null, null, null, statusW, stdio[1], stdio[2], stdio[0], holdR}
	t := &tree{pidfd: -1, ended: make(chan struct{}), hold: holdW, statusF: statusR, status: json.NewDecoder(statusR), group: g, runtime: true}
	begun := make(chan error)
	go t.live(begun, func() (*os.Process, error) { return t.beginRuntime(&with, s, l, uid, w) })
	if err := <-begun; err != nil {
		if t.serve != nil {
			_ = t.serve.Close()
		}
		return nil, err
	}
	with.files.keep(statusR, holdW)
	return t, nil
}

// beginRuntime runs on the thread of live, whose mounts and network are its own.
func (t *tree) beginRuntime(with *launch, s Spec, l Limits, uid int, w without) (*os.Process, error) {
	staged, err := stage(s.mounts(), uid)
	if err != nil {
		return nil, err
	}
	if len(staged) == 0 {
		return nil, errors.New("a runtime needs a mount") // else this thread has the mounts of all others
	}
	dir := filepath.Join(filepath.Dir(staged[0].Host), "bundle")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount("sandpiper", dir, "tmpfs", unix.MS_NOSUID, "size=16m,mode=0755"); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	// The network of the tree belongs to the user namespace of the host, so that nothing inside can change it.
	if t.serve, err = ownNetwork(); err != nil {
		return nil, err
	}
	if s.Listen == nil {
		_ = t.serve.Close()
		t.serve = nil
	}
	t.leaf = leafOf(s.Name)
	name := containerOf(t.leaf)
	argv, err := s.Runtime.Bundle(Bundle{Dir: dir, Name: name, Spec: s, Limits: l, UID: uid, Mounts: staged})
	if err != nil {
		return nil, err
	}
	t.after = func() error {
		removeElsewhere(name)
		return s.Runtime.Failure(dir)
	}
	attr := attributes(with.inherit, uid, w)
	attr.Sys.Credential = nil // the runtime is root's, the command is not
	attr.Sys.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	p, err := t.startProcess("/bin/sh", append([]string{"sh", "-c", hold, "sandpiper"}, argv...), attr, w)
	if err != nil {
		return nil, err
	}
	t.init = p.Pid
	if t.pidfd, err = unix.PidfdOpen(p.Pid, 0); err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return nil, fmt.Errorf("first process: %w", err)
	}
	return p, nil
}

// whyNot says why a command that has no exit status was not executed.
func (t *tree) whyNot(s Spec) error {
	command := s.Argv[0]
	switch {
	case t.notStarted == 1:
		return &NotStarted{126, "no way to the directory " + s.Dir}
	case t.notStarted == 127:
		return &NotStarted{127, command + ": not found"}
	case t.notStarted != 0:
		return &NotStarted{t.notStarted, command + ": cannot be executed"}
	case t.failed != nil:
		return t.failed
	}
	return fmt.Errorf("%s: the runtime ended without a word", command)
}

// containerOf names a container, and with it the groups that a runtime makes for it. They have no lock, so they must not look like
// ours: see sweepGroup.
func containerOf(leaf string) string { return "box." + leaf }

// groupForRuntime makes the control group and puts a runtime into it. Where it makes its own, as it does for each container, it
// makes it below: in the older version below the group that it is in, in the newer one beside that, hence the inner one.
func groupForRuntime(name string, l Limits, t *tree) (*group, error) {
	l.Procs += behindRuntime
	g := newGroupAt(name, t.leaf, l)
	for _, dir := range g.dirs {
		at := dir
		if _, err := os.Stat(filepath.Join(dir, "cgroup.subtree_control")); err == nil {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory +pids"), 0); err != nil {
				return g, fmt.Errorf("control group: %w", err)
			}
			at = filepath.Join(dir, "runtime")
			if err := os.Mkdir(at, 0o755); err != nil {
				return g, fmt.Errorf("control group: %w", err)
			}
		}
		if err := os.WriteFile(filepath.Join(at, "cgroup.procs"), fmt.Appendf(nil, "%d", t.init), 0); err != nil {
			return g, fmt.Errorf("control group: %w", err)
		}
	}
	return g, nil
}

// removeElsewhere removes the empty control groups that a runtime has made, and may not have come to remove, in the hierarchies in
// which we have none of our own.
func removeElsewhere(name string) {
	for line := range lines("/proc/self/mountinfo") {
		left, right, _ := strings.Cut(line, " - ")
		fields := strings.Fields(left)
		options := strings.FieldsFunc(right, func(c rune) bool { return c == ',' || c == ' ' })
		if len(fields) < 5 || !strings.HasPrefix(right, "cgroup") || slices.Contains(options, "memory") || slices.Contains(options, "pids") {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(fields[4], name))
		deeper, _ := filepath.Glob(filepath.Join(fields[4], "*", name))
		deepest, _ := filepath.Glob(filepath.Join(fields[4], "*", "*", name))
		for _, dir := range append(append(found, deeper...), deepest...) {
			for _, inner := range below1(dir) {
				_ = os.Remove(inner)
			}
			_ = os.Remove(dir)
		}
	}
}

// HostSystem are the programs of this machine as mounts, all read-only, and the links among them by their paths.
func HostSystem() (mounts []Mount, links map[string]string, err error) {
	args, err := systemArgs()
	if err != nil {
		return nil, nil, err
	}
	links = map[string]string{}
	for i := 0; i+2 < len(args); i += 3 {
		switch args[i] {
		case "--symlink":
			links[args[i+2]] = args[i+1]
		default:
			if _, err := os.Stat(args[i+1]); err == nil {
				mounts = append(mounts, Mount{Host: args[i+1], Inside: args[i+2]})
			}
		}
	}
	return mounts, links, nil
}

// Files are what is written for a tree below /etc.
func Files(uid int, hostname string) map[string]string { return written(uid, hostname) }

// Hidden are the paths of /proc that a tree must not see.
func Hidden() []string { return hidden }

// Denied are the system calls that are refused, whatever their arguments.
func Denied() []string { return denied }

// Ioctls are the requests of ioctl(2) that are refused, on every descriptor.
func Ioctls() []uint32 { return ioctls }

// Families are the families of sockets that a tree may have: of those of netlink, the routes of its own network only.
func Families() []uint64 { return families }

// Environment is that of a command.
func Environment(own []string) []string { return environment(own) }
