package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An overlay is mounted where only the tree sees it. Root mounts it in the mount namespace of the thread that starts
// bubblewrap (see stage). An ordinary user may mount only in a user namespace of its own, which a program with threads
// cannot enter: so this executable is started again in one, with the user's own id mapped to itself, mounts (see init), gives up
// all capabilities and executes bubblewrap. Were the id mapped to another one, such as 0, the files would seem to
// belong to somebody else than in git's index, and git status would read all of them (measured: 20,000 of 20,000).

// stageName is the name by which this executable knows that it was started to mount overlays.
const stageName = "sandpiper-overlay-stage"

// maxMountData is the longest list of options that mount(2) takes: a page, with the zero at its end.
const maxMountData = 4095

// check refuses paths that the option string of the mount would cut in pieces.
func (o *Overlay) check(upper string) error {
	if o == nil {
		return nil
	}
	for _, p := range append([]string{upper, o.Work}, o.Lower...) {
		if !filepath.IsAbs(p) || strings.ContainsAny(p, ":,\\\"\x00") {
			return fmt.Errorf("overlay: %q is not an absolute path without colon, comma, quote and backslash", p)
		}
	}
	if len(o.Lower) == 0 {
		return errors.New("overlay: no lower layer")
	}
	return nil
}

// options of the mount. Volatile: without it, the end of the mount waits for everything that is dirty on the whole file system
// (seen to take 7 s). Metacopy would leave files in the upper layer that have no content there.
func (o *Overlay) options(upper string, root bool) (string, error) {
	how := "userxattr,volatile"
	if root { // may rename directories of the lower layer, by marks that only root can write
		how = "redirect_dir=on,metacopy=off,index=off,volatile"
	}
	s := "lowerdir=" + strings.Join(o.Lower, ":") + ",upperdir=" + upper + ",workdir=" + o.Work + "," + how
	if len(s) > maxMountData {
		return "", fmt.Errorf("overlay: its paths are too long together: %d bytes", len(s))
	}
	return s, nil
}

// mount makes the overlay visible at a directory. What an earlier volatile mount has left in the work directory goes first:
// the kernel refuses to mount over it, as nobody could say after a power cut what is in the upper layer.
func (o *Overlay) mount(upper, at string, root bool) error {
	options, err := o.options(upper, root)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(o.Work, "work", "incompat")); errors.Is(err, os.ErrPermission) {
		// The kernel makes this directory with mode 000.
		if err = os.Chmod(filepath.Join(o.Work, "work"), 0o700); err == nil {
			err = os.RemoveAll(filepath.Join(o.Work, "work", "incompat"))
		}
		if err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	return nil
}

// stageOverlay mounts an overlay at a new directory, as root.
func stageOverlay(m Mount, at string) error {
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	if err := m.Overlay.mount(m.Host, at, true); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// overlays are the mounts that are one.
func overlays(mounts []Mount) []Mount {
	var out []Mount
	for _, m := range mounts {
		if m.Overlay != nil {
			out = append(out, m)
		}
	}
	return out
}

// overlayList tells the stage what to do: our process id, then for each overlay its upper, work and lower directories and
// an empty word.
func overlayList(mounts []Mount) []byte {
	words := []string{strconv.Itoa(os.Getpid())}
	for _, m := range mounts {
		words = append(append(append(words, m.Host, m.Overlay.Work), m.Overlay.Lower...), "")
	}
	return []byte(strings.Join(words, "\x00"))
}

// overlayCaps are what the kernel uses of the credentials of who mounted an overlay: to mount, and to copy files up as
// they are, whoever is allowed to read or write them (CAP_SYS_ADMIN alone: "overlay permission denied").
var overlayCaps = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_MKNOD, unix.CAP_SETFCAP, unix.CAP_SYS_RESOURCE, unix.CAP_SYS_ADMIN}

// executeOver starts bubblewrap behind the stage, whose list is the last of the inherited files.
func executeOver(bwrap string, argv []string, inherit []*os.File, w without) (*os.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	attr := attributes(inherit, os.Geteuid(), w)
	attr.Sys.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	attr.Sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.Sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.Sys.AmbientCaps = overlayCaps
	return startProcess(self, append([]string{stageName, strconv.Itoa(len(inherit) - 1), bwrap}, argv...), attr, w)
}

// init is the stage. It runs before main and most packages are initialised, which is several times the cost of what it does,
// and it never returns.
func init() {
	if len(os.Args) < 4 || os.Args[0] != stageName {
		return
	}
	runtime.LockOSThread()
	if err := stageMain(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		_, _ = os.Stderr.WriteString("overlay: " + err.Error() + "\n")
	}
	unix.Exit(1)
}

func stageMain(list, bwrap string, argv []string) error {
	fd, err := strconv.Atoi(list)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "overlays")
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	_ = f.Close()
	parent, rest, _ := strings.Cut(string(text), "\x00")
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
