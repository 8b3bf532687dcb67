package jail

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Usage is what directories take on the disk: blocks in use, not the sizes that files claim, and entries of any kind.
type Usage struct {
	Bytes int64 `json:"bytes"`
	Files int   `json:"files"`
}

// Measure walks directories without following links, each open one by its descriptor: a tree may be deeper than a path can be
// long, and it may change while it is walked. What disappears meanwhile is not counted.
func Measure(dirs ...string) (Usage, error) {
	var u Usage
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return u, fmt.Errorf("measure %s: %w", dir, err)
		}
		buf := make([]byte, 1<<16)
		if err := u.walk(fd, buf); err != nil {
			return u, fmt.Errorf("measure %s: %w", dir, err)
		}
	}
	return u, nil
}

// maxDepth bounds the open descriptors; what lies deeper is not counted, and one file of it is RLIMIT_FSIZE at most.
const maxDepth = 2000

// level is an open directory, and which of its directories are still to be walked.
type level struct {
	fd   int
	dirs []string
}

// walk adds what lies below the open directory, and closes it. Each level on the way keeps one descriptor open.
func (u *Usage) walk(fd int, buf []byte) error {
	first, err := u.read(fd, buf)
	stack := []level{first}
	for len(stack) > 0 && err == nil {
		top := &stack[len(stack)-1]
		if len(top.dirs) == 0 {
			_ = unix.Close(top.fd)
			stack = stack[:len(stack)-1]
			continue
		}
		name := top.dirs[len(top.dirs)-1]
		top.dirs = top.dirs[:len(top.dirs)-1]
		if len(stack) >= maxDepth {
			continue
		}
		const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		next, openErr := unix.Openat(top.fd, name, flags, 0)
		if openErr != nil {
			continue // gone, replaced, or closed to us: an ordinary user may have taken its own permission away
		}
		var l level
		l, err = u.read(next, buf)
		stack = append(stack, l)
	}
	for _, l := range stack {
		_ = unix.Close(l.fd)
	}
	return err
}

// read adds the entries of one directory.
func (u *Usage) read(fd int, buf []byte) (level, error) {
	l := level{fd: fd}
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n <= 0 {
			if errors.Is(err, unix.ENOENT) { // removed while it was read
				err = nil
			}
			return l, err
		}
		for rest := buf[:n]; len(rest) > 0; {
			name, size := entry(rest)
			rest = rest[size:]
			if name == "." || name == ".." {
				continue
			}
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			u.Files++
			u.Bytes += st.Blocks * 512
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
