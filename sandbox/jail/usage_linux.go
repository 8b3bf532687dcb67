package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// Usage is what directories take on the disk: blocks in use, not the sizes that files claim, and entries of any kind.
type Usage struct {
	Bytes int64 `json:"bytes"`
	Files int   `json:"files"`
}

// errMoved says that directories were moved while they were walked.
var errMoved = errors.New("a directory was moved while it was walked")

// Measure walks directories without following links, each open one by its descriptor: a tree may be deeper than a path can be
// long, and it may change while it is walked. What disappears meanwhile is not counted, nor is what lies in a directory that its owner,
// an ordinary user as we are, has closed.
func Measure(dirs ...string) (Usage, error) {
	u, _, err := measure(false, dirs)
	return u, err
}

// measure says whether there were closed directories, and opens them if it is told to. For that nobody else may be at work in them:
// while one is opened it has another mode.
func measure(closed bool, dirs []string) (u Usage, missed bool, err error) {
	w := walk{closed: closed, buf: make([]byte, 1<<16)}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = w.from(fd)
		}
		if err != nil {
			return w.Usage, w.missed, fmt.Errorf("measure %s: %w", dir, err)
		}
	}
	return w.Usage, w.missed, nil
}

// walk adds up what directories hold.
type walk struct {
	Usage
	closed bool // open closed directories
	missed bool // there was a closed one
	buf    []byte
}

// maxOpen bounds the open descriptors. Of what lies deeper the upper levels are closed, and opened again on the way back.
const maxOpen = 1000

// level is a directory, and which of its directories are still to be walked.
type level struct {
	fd       int // -1: it is closed
	dev, ino uint64
	mode     uint32 // that it is given back, if it was opened for us
	dirs     []string
}

func (l *level) close() {
	if l.mode != 0 {
		_ = unix.Fchmod(l.fd, l.mode&0o7777)
	}
	_ = unix.Close(l.fd) // -1 is refused
	l.fd = -1
}

// from adds what lies below the open directory, and closes it.
func (w *walk) from(fd int) error {
	stack := []level{{fd: fd}}
	defer func() {
		for _, l := range slices.Backward(stack) {
			l.close()
		}
	}()
	err := w.read(&stack[0])
	for len(stack) > 0 && err == nil {
		top := &stack[len(stack)-1]
		if len(top.dirs) == 0 {
			if err = back(stack); err == nil {
				top.close()
				stack = stack[:len(stack)-1]
			}
			continue
		}
		name := top.dirs[len(top.dirs)-1]
		top.dirs = top.dirs[:len(top.dirs)-1]
		next, ok := w.open(top.fd, name)
		if !ok {
			continue // gone, replaced, or closed to us
		}
		stack = append(stack, next)
		err = w.read(&stack[len(stack)-1])
		if far := len(stack) - 1 - maxOpen; far >= 0 && stack[far].mode == 0 {
			stack[far].close()
		}
	}
	return err
}

// back opens the level above the top again, if it was closed. Should the directory be another one by now, it was moved, and the way up
// may lead anywhere.
func back(stack []level) error {
	if len(stack) < 2 || stack[len(stack)-2].fd >= 0 {
		return nil
	}
	above := &stack[len(stack)-2]
	fd, err := unix.Openat(stack[len(stack)-1].fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errMoved
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint64(st.Dev) != above.dev || st.Ino != above.ino {
		_ = unix.Close(fd)
		return errMoved
	}
	above.fd = fd
	return nil
}

const dirFlags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// open opens a directory. An ordinary user may have taken its own permission away: files in it that are open already can still
// be written, and it would be a place that nobody counts.
func (w *walk) open(dir int, name string) (l level, ok bool) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|dirFlags, 0)
	if err == nil {
		return level{fd: fd}, true
	}
	if !errors.Is(err, unix.EACCES) {
		return level{}, false
	}
	w.missed = true
	if !w.closed {
		return level{}, false
	}
	at, err := unix.Openat(dir, name, unix.O_PATH|dirFlags, 0)
	if err != nil {
		return level{}, false
	}
	defer unix.Close(at)
	var st unix.Stat_t
	itself := fmt.Sprintf("/proc/self/fd/%d", at)
	if unix.Fstat(at, &st) != nil || unix.Chmod(itself, st.Mode&0o7777|0o500) != nil {
		return level{}, false
	}
	if fd, err = unix.Open(itself, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		_ = unix.Chmod(itself, st.Mode&0o7777)
	}
	return level{fd: fd, mode: st.Mode}, err == nil
}

// read adds the entries of one directory.
func (w *walk) read(l *level) error {
	var own unix.Stat_t
	if err := unix.Fstat(l.fd, &own); err != nil {
		return err
	}
	l.dev, l.ino = uint64(own.Dev), own.Ino
	for {
		n, err := unix.Getdents(l.fd, w.buf)
		if err != nil || n <= 0 {
			if errors.Is(err, unix.ENOENT) { // removed while it was read
				err = nil
			}
			return err
		}
		for rest := w.buf[:n]; len(rest) > 0; {
			name, size := entry(rest)
			rest = rest[size:]
			if name == "." || name == ".." {
				continue
			}
			var st unix.Stat_t
			if unix.Fstatat(l.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			w.Files++
			w.Bytes += st.Blocks * 512
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				l.dirs = append(l.dirs, name)
			}
		}
	}
}

// entry reads the name of a struct linux_dirent64, and its size.
func entry(b []byte) (name string, size int) {
	size = int(b[16]) | int(b[17])<<8
	raw := b[19:size]
	for i, c := range raw {
		if c == 0 {
			return string(raw[:i]), size
		}
	}
	return string(raw), size
}
