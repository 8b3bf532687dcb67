package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An ordinary user may mount, and have a network of its own, only in a user namespace of its own, which a program with threads
// cannot enter: so this executable is started again in one, as the stage, with the user's own id mapped to itself. It mounts the
// overlays, opens the listener (see init), gives up all capabilities and executes bubblewrap. Were the id mapped to
// another one, such as 0, the files would seem to belong to somebody else than in git's index, and git status would read all
// of them (measured: 20,000 of 20,000).

// stageName is the name by which this executable knows that it was started as the stage.
const stageName = "sandpiper-stage"

// stageList tells the stage what to do: our process id, whether to listen, then for each overlay its upper, work and lower
// directories and an empty word.
func stageList(mounts []Mount, listen bool) []byte {
	words := []string{strconv.Itoa(os.Getpid()), strconv.FormatBool(listen)}
	for _, m := range mounts {
		words = append(append(append(words, m.Host, m.Overlay.Work), m.Overlay.Lower...), "")
	}
	return []byte(strings.Join(words, "\x00"))
}

// overlayCaps are what the kernel uses of the credentials of who mounted an overlay: to mount, and to copy files up as
// they are, whoever is allowed to read or write them (CAP_SYS_ADMIN alone: "overlay permission denied").
var overlayCaps = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_MKNOD, unix.CAP_SETFCAP, unix.CAP_SYS_RESOURCE, unix.CAP_SYS_ADMIN}

// executeStage starts bubblewrap behind the stage, whose list is the last of the inherited files, and the socket for the
// listener the one before.
func (t *tree) executeStage(bwrap string, argv []string, inherit []*os.File, listen bool, w without) (*os.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	attr := attributes(inherit, os.Geteuid(), w)
	attr.Sys.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	attr.Sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.Sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.Sys.AmbientCaps = overlayCaps
	if listen {
		attr.Sys.Cloneflags |= syscall.CLONE_NEWNET
		attr.Sys.AmbientCaps = append(slices.Clone(overlayCaps), unix.CAP_NET_ADMIN) // to set up the loopback
	}
	return t.startProcess(self, append([]string{stageName, strconv.Itoa(len(inherit) - 1), bwrap}, argv...), attr, w)
}

// init is the stage. It runs before main and most packages are initialised, which is several times the cost of what it does,
// and it never returns.
func init() {
	if len(os.Args) < 4 || os.Args[0] != stageName {
		return
	}
	runtime.LockOSThread()
	err := stageMain(os.Args[1], os.Args[2], os.Args[3:]) // it returns only when it could not become the command
	_, _ = os.Stderr.WriteString("stage: " + err.Error() + "\n")
	unix.Exit(1)
}

func stageMain(list, bwrap string, argv []string) error {
	fd, err := strconv.Atoi(list)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "stage")
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	_ = f.Close()
	parent, rest, _ := strings.Cut(string(text), "\x00")
	listen, rest, _ := strings.Cut(rest, "\x00")
	if listen == "true" {
		if err := handOver(fd - 1); err != nil {
			return err
		}
	}
	for rest != "" {
		var words []string
		for {
			var word string
			if word, rest, _ = strings.Cut(rest, "\x00"); word == "" {
				break
			}
			words = append(words, word)
		}
		if len(words) < 3 {
			return errors.New("the list is damaged")
		}
		o := &Overlay{Work: words[1], Lower: words[2:]}
		// The upper layer itself is the place: it is hidden from the tree, and no further directory is needed.
		if err := o.mount(words[0], words[0], false); err != nil {
			return err
		}
	}
	if err := dropAll(); err != nil {
		return err
	}
	// The kernel forgets this whenever a process gets capabilities. The parent may have died in between.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if strconv.Itoa(os.Getppid()) != parent {
		return errors.New("the launcher has ended")
	}
	return fmt.Errorf("bubblewrap: %w", unix.Exec(bwrap, argv, nil))
}

// dropAll gives up every capability of this thread, which is the one that executes bubblewrap.
func dropAll() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
