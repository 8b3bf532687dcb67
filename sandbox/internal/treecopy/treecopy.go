// Package treecopy copies trees that a sandbox has written, or will: no link in them is followed, and what is neither file,
// directory nor link stays behind.
package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// Options of Copy.
type Options struct {
	Take  func(path string, dir bool) bool // what is copied; nil: everything
	UID   int                              // owner of the copies; -1: who we are
	Bytes int64                            // at most; 0: no bound
	Files int                              // at most; 0: no bound
}

// ErrTooLarge says that there is more than the bounds allow.
var ErrTooLarge = errors.New("too large")

// Stats is what was copied.
type Stats struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

type copier struct {
	Options
	ctx      context.Context
	from, to *os.Root
	stats    Stats
}

// Copy copies what is in one directory into another one, which exists. Times are kept: tools go by them. Set-user-id bits are not.
// What an earlier call has copied is copied again. io.Copy between files is copy_file_range(2), which shares the blocks where the
// file system can.
func Copy(ctx context.Context, from, to string, o Options) (Stats, error) {
	src, err := os.OpenRoot(from)
	if err != nil {
		return Stats{}, err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return Stats{}, err
	}
	defer dst.Close()
	c := &copier{Options: o, ctx: ctx, from: src, to: dst}
	err = c.dir(".")
	return c.stats, err
}

func (c *copier) dir(name string) error {
	d, err := c.from.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := path.Join(name, e.Name())
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if c.Take != nil && !c.Take(p, e.IsDir()) {
			continue
		}
		if err := c.entry(p, e); err != nil {
			return fmt.Errorf("copy %q: %w", p, err)
		}
	}
	return nil
}

func (c *copier) entry(p string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return c.subdir(p, info)
	case info.Mode().IsRegular(), info.Mode()&fs.ModeSymlink != 0:
	default:
		return nil
	}
	c.stats.Files++
	c.stats.Bytes += info.Size()
	if c.Files > 0 && c.stats.Files > c.Files || c.Bytes > 0 && c.stats.Bytes > c.Bytes {
		return fmt.Errorf("more than %d files or %d MiB: %w", c.Files, c.Bytes>>20, ErrTooLarge)
	}
	if err := c.parents(path.Dir(p)); err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		return c.file(p, info)
	}
	target, err := c.from.Readlink(p)
	if err != nil {
		return err
	}
	if err := c.to.Symlink(target, p); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return c.own(p)
}

// subdir makes a directory only when something is copied into it, or when it is all of a caller's choice: an empty directory says
// nothing.
func (c *copier) subdir(p string, info fs.FileInfo) error {
	if err := c.dir(p); err != nil {
		return err
	}
	if made, err := c.to.Lstat(p); err == nil && made.IsDir() {
		return c.to.Chtimes(p, info.ModTime(), info.ModTime())
	}
	return nil
}

func (c *copier) parents(dir string) error {
	if dir == "." {
		return nil
	}
	if _, err := c.to.Lstat(dir); err == nil {
		return nil
	}
	if err := c.parents(path.Dir(dir)); err != nil {
		return err
	}
	if err := c.to.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return c.own(dir)
}

func (c *copier) file(p string, info fs.FileInfo) error {
	// Not waiting for a pipe, should one have come in the place of the file.
	r, err := c.from.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	// What a call before a crash has made may be read-only by now.
	if err := c.to.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w, err := c.to.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := c.own(p); err != nil {
		return err
	}
	// The mode that was asked for went through the umask.
	if err := c.to.Chmod(p, info.Mode().Perm()); err != nil {
		return err
	}
	return c.to.Chtimes(p, info.ModTime(), info.ModTime())
}

func (c *copier) own(p string) error {
	if c.UID < 0 {
		return nil
	}
	return c.to.Lchown(p, c.UID, c.UID)
}
