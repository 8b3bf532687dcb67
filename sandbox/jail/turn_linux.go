package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// An upper layer may be mounted once at a time: two mounts of it do not see what the other does ("undefined behavior" in the
// kernel's documentation of overlayfs). So a command that begins while another lives on the same layers joins the mount
// namespace in which the other's launcher has mounted them: root by entering it, an ordinary user by nsenter(1), as a program
// with threads cannot enter a user namespace.

// turn is the right to mount the overlays of one run, or to join who has. It ends when the mounts are seen to be there.
type turn struct {
	lock    *flock.Lock
	marks   [][]byte
	holders []int // bubblewrap processes, outside, in whose mount namespace the layers are mounted
}

// turnWait is how long another launch on the same layers may take to begin.
const turnWait = 30 * time.Second

// takeTurn waits for the turn, and finds out who has the overlays mounted. Nil: there are none.
func takeTurn(over []Mount) (*turn, error) {
	if len(over) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), turnWait)
	defer cancel()
	lock, err := flock.Wait(ctx, filepath.Join(over[0].Overlay.Work, "holders"), flock.Exclusive)
	if err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	s := &turn{lock: lock}
	for _, m := range over {
		s.marks = append(s.marks, []byte(MountMark(m.Host)))
	}
	text, err := io.ReadAll(lock.File())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("overlay: %w", err), lock.Unlock())
	}
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && s.mountedIn(pid) == nil {
			s.holders = append(s.holders, pid)
		}
	}
	return s, nil
}

// MountMark is what the line of an overlay in /proc/<pid>/mountinfo has of its upper layer.
func MountMark(upper string) string {
	// As seq_escape in the kernel writes it; other such characters are not in the paths of overlays.
	return ",upperdir=" + strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, "#", `\043`).Replace(upper) + ","
}

// mountedIn says whether a process sees all the overlays.
func (s *turn) mountedIn(pid int) error {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return err
	}
	for _, mark := range s.marks {
		if !bytes.Contains(info, mark) {
			return fmt.Errorf("overlay: not mounted in process %d", pid)
		}
	}
	return nil
}

// enter takes the calling thread, which is root's, into the mount namespace of a holder, if there is one.
func (s *turn) enter() error {
	if s == nil || len(s.holders) == 0 || os.Geteuid() != 0 {
		return nil
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", s.holders[0]))
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("overlay: enter the mounts of process %d: %w", s.holders[0], err)
	}
	return nil
}

// executeWithin executes bubblewrap as an ordinary user in namespaces where the overlays are mounted: those of a holder, or new ones.
func (t *tree) executeWithin(bwrap string, argv []string, with *launch, over []Mount, listen bool, w without) (*os.Process, error) {
	if t.turn != nil && len(t.turn.holders) > 0 {
		if listen {
			return nil, fmt.Errorf("%w: another command runs in the sandbox, and only root can join it with a network", ErrUnavailable)
		}
		program, args, err := t.turn.joining(bwrap, argv)
		if err != nil {
			return nil, err
		}
		return t.execute(program, args, with.inherit, os.Geteuid(), w)
	}
	if listen {
		ours, theirs, err := with.files.sockets()
		if err != nil {
			return nil, err
		}
		t.handed, with.inherit = ours, append(with.inherit, theirs)
	}
	todo, err := with.files.memory("stage", stageList(over, listen))
	if err != nil {
		return nil, err
	}
	return t.executeStage(bwrap, argv, append(with.inherit, todo), listen, w)
}

// joining gives the command line by which an ordinary user executes bubblewrap in the namespaces of a holder.
func (s *turn) joining(bwrap string, argv []string) (program string, args []string, err error) {
	program, err = exec.LookPath("nsenter")
	if err != nil {
		return "", nil, fmt.Errorf("%w: another command runs in the sandbox, and to join it needs nsenter of util-linux", ErrUnavailable)
	}
	ns := fmt.Sprintf("/proc/%d/ns/", s.holders[0])
	return program, append([]string{"nsenter", "--preserve-credentials", "--user=" + ns + "user", "--mount=" + ns + "mnt", "--", bwrap}, argv[1:]...), nil
}

// done ends the turn. A tree that has begun has to see the overlays, else it would write to the upper layers themselves: its
// mounts were made in what bubblewrap, the monitor, sees.
func (s *turn) done(begun error, monitor *os.Process) error {
	if s == nil {
		return begun
	}
	if begun == nil {
		begun = s.mountedIn(monitor.Pid)
	}
	if begun == nil {
		begun = s.note(monitor.Pid)
	}
	return errors.Join(begun, s.lock.Unlock())
}

// note writes down who has the overlays mounted.
func (s *turn) note(pid int) error {
	var text bytes.Buffer
	for _, holder := range append(s.holders, pid) {
		fmt.Fprintln(&text, holder)
	}
	f := s.lock.File()
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if _, err := f.WriteAt(text.Bytes(), 0); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	return nil
}
