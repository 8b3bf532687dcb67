// Package removal removes trees that a sandbox has written.
package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// All removes a tree of any depth, following no link; nothing may change in it meanwhile. os.RemoveAll holds a descriptor for each
// level, of which a process has no more than its limit, and as an ordinary user it cannot empty a directory without permissions:
// a sandbox can make both.
func All(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var st unix.Stat_t
	if statErr := unix.Lstat(path, &st); statErr != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	w := &walk{}
	err = w.enter(unix.AT_FDCWD, path)
	for err == nil && len(w.levels) > 0 {
		err = w.step()
	}
	if w.dir != nil {
		w.dir.Close()
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return os.Remove(path)
}

// walk goes down into a tree and up again with one open directory.
type walk struct {
	dir    *os.File
	levels []level // from the top to dir
}

// level is a directory that is being emptied.
type level struct {
	name     string
	dev, ino uint64
	dirs     []string // in it, not yet emptied
}

// step empties the open directory of all but its directories, and goes down into one of those, or up when none is left.
func (w *walk) step() error {
	here := &w.levels[len(w.levels)-1]
	if n := len(here.dirs); n > 0 {
		name := here.dirs[n-1]
		here.dirs = here.dirs[:n-1]
		return w.enter(int(w.dir.Fd()), name)
	}
	if w.levels = w.levels[:len(w.levels)-1]; len(w.levels) == 0 {
		return nil
	}
	return w.leave(here.name)
}

// enter goes down: it gives us all rights on a directory, removes what is no directory in it, and notes the others.
func (w *walk) enter(at int, name string) error {
	// A directory and not a link, as it was looked at, and nobody is left to swap it.
	if err := unix.Fchmodat(at, name, 0o700, 0); err != nil {
		return err
	}
	if err := w.open(at, name); err != nil {
		return err
	}
	l := level{name: name}
	var err error
	if l.dev, l.ino, err = identity(w.dir); err != nil {
		return err
	}
	names, err := w.dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		err := unix.Unlinkat(int(w.dir.Fd()), name, 0)
		if errors.Is(err, unix.EISDIR) {
			l.dirs = append(l.dirs, name)
		} else if err != nil {
			return err
		}
	}
	w.levels = append(w.levels, l)
	return nil
}

// leave goes up from a directory that is empty, and removes it.
func (w *walk) leave(name string) error {
	if err := w.open(int(w.dir.Fd()), ".."); err != nil {
		return err
	}
	parent := w.levels[len(w.levels)-1]
	if dev, ino, err := identity(w.dir); err != nil || dev != parent.dev || ino != parent.ino {
		return errors.Join(err, fmt.Errorf("directory %.100q was moved meanwhile", name))
	}
	return unix.Unlinkat(int(w.dir.Fd()), name, unix.AT_REMOVEDIR)
}

// open opens a directory in the place of the one that is open.
func (w *walk) open(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if w.dir != nil {
		w.dir.Close()
	}
	w.dir = os.NewFile(uintptr(fd), name)
	return nil
}

func identity(dir *os.File) (dev, ino uint64, err error) {
	var st unix.Stat_t
	err = unix.Fstat(int(dir.Fd()), &st)
	return uint64(st.Dev), st.Ino, err
}
