package collect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// maxDepth is how many directories deep the walk goes; each level holds a descriptor. A path of single letters that is as
// long as PATH_MAX has 2048 levels, and git 2.43 and later refuses trees deeper than that (core.maxTreeDepth).
const maxDepth = 2048

// errTooMuch is wrapped by the errors for workspaces that go beyond a cap.
var errTooMuch = errors.New("beyond the cap")

// errNoRoom is the errTooMuch of a disk.
var errNoRoom = fmt.Errorf("%w", errTooMuch)

// entry is one name found by the walk.
type entry struct {
	path string // relative to the root, raw bytes
	name string
	dir  int // descriptor of the directory that holds it, open while visit runs
	stat unix.Stat_t
}

func (e entry) kind() uint32 { return e.stat.Mode & unix.S_IFMT }

// walker goes through a tree that its owner may have filled with anything. It follows no link: each directory is opened
// relative to its parent's descriptor, so that paths may be longer than PATH_MAX.
type walker struct {
	ctx     context.Context
	entries int // so far
	limit   int // of entries
	// visit says whether to go into a directory.
	visit func(entry) (into bool, err error)
	// deeper is told of a directory at maxDepth, which is not gone into. Nil: it is an error.
	deeper func(entry)
}

func (w *walker) root(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	return w.directory(os.NewFile(uintptr(fd), dir), "", 0)
}

// directory visits everything in an open directory, in byte order, and closes it.
func (w *walker) directory(d *os.File, prefix string, depth int) error {
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.entries++; w.entries > w.limit {
			return fmt.Errorf("more than %d files: %w", w.limit, errTooMuch)
		}
		if err := w.entry(int(d.Fd()), prefix, name, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(dir int, prefix, name string, depth int) error {
	e := entry{path: path.Join(prefix, name), name: name, dir: dir}
	if prefix != "" {
		e.path = prefix + "/" + name
	}
	if err := unix.Fstatat(dir, name, &e.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("stat %q: %w", e.path, err)
	}
	if err := makeReadable(&e); err != nil {
		return err
	}
	into, err := w.visit(e)
	if err != nil || !into || e.kind() != unix.S_IFDIR {
		return err
	}
	if depth+1 >= maxDepth && w.deeper != nil {
		w.deeper(e)
		return nil
	}
	if depth+1 >= maxDepth {
		return fmt.Errorf("directories deeper than %d at %.100q: %w", maxDepth, e.path, errTooMuch)
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %q: %w", e.path, err)
	}
	return w.directory(os.NewFile(uintptr(fd), name), e.path, depth+1)
}

// makeReadable gives the owner of a file or directory (us, or we are root and need no mode) the right to read it: what
// cannot be read would be lost. It changes the file's ctime only, which git does not record.
func makeReadable(e *entry) error {
	want := uint32(unix.S_IRUSR)
	switch e.kind() {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		want |= unix.S_IXUSR
	default:
		return nil
	}
	if e.stat.Mode&want == want || os.Geteuid() == 0 {
		return nil
	}
	if err := unix.Fchmodat(e.dir, e.name, e.stat.Mode&0o7777|want, 0); err != nil {
		return fmt.Errorf("make %q readable: %w", e.path, err)
	}
	if err := unix.Fstatat(e.dir, e.name, &e.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("stat %q: %w", e.path, err)
	}
	return nil
}

// openFile opens a regular file below root for reading, without following a link in any component and without waiting
// for the other end of a FIFO.
func openFile(root int, name string) (*os.File, error) {
	dir, base := path.Split(name)
	fd, err := openDir(root, dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	f, err := unix.Openat(fd, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	return os.NewFile(uintptr(f), base), nil
}

// openDir opens a directory below root, component by component.
func openDir(root int, dir string) (int, error) {
	fd, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for start := 0; start < len(dir); {
		end := start
		for end < len(dir) && dir[end] != '/' {
			end++
		}
		if end > start {
			next, err := unix.Openat(fd, dir[start:end], unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			unix.Close(fd)
			if err != nil {
				return -1, fmt.Errorf("open %q: %w", dir[:end], err)
			}
			fd = next
		}
		start = end + 1
	}
	return fd, nil
}
