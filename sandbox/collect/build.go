package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/room"
	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// maxPath is the longest path that goes into a result: no file system of Linux could check out a longer one in one call.
const maxPath = unix.PathMax - 1

// holdToCaps takes out what is too large for the result, and refuses what a snapshot of everything would lose.
func (c *collector) holdToCaps() error {
	var total int64
	spare := room.Spare(c.Scratch) // git would find it out when nobody can write any more
	largest := c.Caps.File
	if c.Everything {
		largest = c.Caps.Kept
	}
	kept := c.changes[:0]
	for _, ch := range c.changes {
		reason := ""
		switch {
		case ch.mode != objects.ModeLink && ch.size > largest:
			reason = fmt.Sprintf("%s (%d bytes)", ch.path, ch.size)
		case len(ch.as) > maxPath && !c.Everything:
			reason = fmt.Sprintf("%.200s... (a path of %d bytes)", ch.path, len(ch.path))
		}
		if reason != "" && c.Everything {
			return fmt.Errorf("%s: %w of %d bytes; remove it in the sandbox, or keep the sandbox", printable(reason), errTooMuch, largest)
		}
		if reason != "" {
			c.notes.add("collect.limit", "medium", reason)
			continue
		}
		if total += ch.size; total > c.Caps.Total {
			return fmt.Errorf("changed files: %w of %d bytes", errTooMuch, c.Caps.Total)
		}
		if total > spare {
			return fmt.Errorf("changed files: %w of the %d bytes that the disk has room for; make room, or remove files in the sandbox", errNoRoom, spare)
		}
		kept = append(kept, ch)
	}
	c.changes = kept
	return nil
}

// build writes the commit. It is the base when there is nothing to write, or what there is makes no difference to the tree.
func (c *collector) build(ctx context.Context) (string, error) {
	if len(c.changes)+len(c.deleted) == 0 {
		return c.Base, nil
	}
	root, err := os.OpenFile(c.Root, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer root.Close()
	gitRoot := root
	if c.Everything && c.GitDir != "" {
		if gitRoot, err = os.OpenFile(c.GitDir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
			return "", err
		}
		defer gitRoot.Close()
	}
	t, err := c.openBase()
	if err != nil {
		return "", err
	}
	// The time is that of the base, so that the same tree gives the same commit.
	who := objects.Ident{Name: "Sandpiper", Email: "sandpiper@localhost", When: t.commit.When.UTC()}
	what := "result"
	if c.Everything {
		what = "everything"
	}
	commit, _, err := objects.Build(ctx, c.Store, objects.Spec{Parent: c.Base, Author: who, Committer: who,
		Message: fmt.Sprintf("%s of run %s\n", what, c.Run), Volatile: !c.Everything}, func(s *objects.Edit) error {
		for _, p := range c.deleted {
			s.Delete(p)
		}
		for _, ch := range c.changes {
			from := root
			if ch.gitDir {
				from = gitRoot
			}
			if err := c.emit(s, int(from.Fd()), ch); err != nil {
				return err
			}
		}
		return nil
	})
	return commit, err
}

func (c *collector) emit(s *objects.Edit, root int, ch change) error {
	if ch.object != "" {
		s.Object(ch.as, ch.mode, ch.object)
		return nil
	}
	if ch.mode == objects.ModeLink {
		dir, base := splitPath(ch.path)
		fd, err := openDir(root, dir)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		target, err := readLink(fd, base)
		if err != nil {
			return fmt.Errorf("read link %q: %w", ch.path, err)
		}
		return s.Blob(ch.as, ch.mode, int64(len(target)), strings.NewReader(target))
	}
	f, err := c.openChange(root, ch)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.Blob(ch.as, ch.mode, ch.size, f)
}

// openChange opens the file that the walk has seen, and no other one. What lies in a lower layer does not change.
func (c *collector) openChange(root int, ch change) (*os.File, error) {
	if ch.lower != "" {
		return c.Layer.open(ch.lower)
	}
	f, err := openFile(root, ch.path)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Ctim != ch.ctime || st.Size != ch.size {
		f.Close()
		return nil, fmt.Errorf("%q changed while it was read", ch.path)
	}
	return f, nil
}

func splitPath(p string) (dir, base string) {
	i := strings.LastIndexByte(p, '/')
	return p[:i+1], p[i+1:]
}

// readLink gives the target of a link: at most PATH_MAX bytes, which is all that Linux lets a link have.
func readLink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func isEmpty(dir int) (bool, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	d := os.NewFile(uintptr(fd), ".")
	defer d.Close()
	_, err = d.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}
