// Package removal removes trees that a sandbox has written.
package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// All removes a tree. os.RemoveAll follows no link and takes paths longer than PATH_MAX, but an ordinary user cannot empty a directory
// without permissions, which a sandbox can make.
func All(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		unix.Close(fd)
		return err
	}
	if err := openUp(fd); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return os.RemoveAll(path)
}

// openUp gives us all rights on the directories below an open one, and closes it.
func openUp(dir int) error {
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), ".")
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := unix.Fchmodat(dir, e.Name(), 0o700, 0); err != nil { // a directory and not a link, and nobody is left to swap it
			return err
		}
		sub, err := unix.Openat(dir, e.Name(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := openUp(sub); err != nil {
			return err
		}
	}
	return nil
}
