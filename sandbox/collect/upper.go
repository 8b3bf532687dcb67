package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// Layer says that Source.Root, and Source.GitDir, are the upper layers of overlays (see overlayfs in the kernel's documentation): they
// hold only what was written. What is deleted has a whiteout there, a character device 0/0, which no sandbox can make: the
// kernel refuses it on an overlay. A directory that hides the one below it is marked opaque. One that was renamed has a mark
// with its old name; only an overlay that root mounted has such.
type Layer struct {
	Lower []string // the directories of the base, the highest first
	Rules []string // the paths of all .gitignore and .gitattributes files of the base
	Root  bool     // the overlay was mounted by root, so that marks are in trusted attributes
}

// upper is what a first walk has found in an upper layer.
type upper struct {
	*Layer
	trees     *trees
	whiteouts map[string]bool
	files     map[string]bool   // all that is neither a directory nor a whiteout
	origin    map[string]string // for each directory, the one of the base that shows through; noOrigin: none does
}

// noOrigin cannot be the path of a directory.
const noOrigin = "/"

// scanUpper does for an upper layer what scan does for a whole workspace. It makes the part of the baseline that the walk will
// meet from the trees of the base, so that the time goes by what was written.
func (c *collector) scanUpper(ctx context.Context) (err error) {
	u := &upper{Layer: c.Layer, whiteouts: map[string]bool{}, files: map[string]bool{}, origin: map[string]string{"": ""}}
	w := &walker{ctx: ctx, limit: c.Caps.Entries, visit: u.look, deeper: func(entry) {}} // the second walk tells
	if err := w.root(c.Root); err != nil {
		return err
	}
	c.Baseline = &Baseline{files: map[string]*stamp{}}
	if len(u.origin) == 1 && len(u.files) == 0 && len(u.whiteouts) == 0 {
		return nil
	}
	if u.trees, err = c.openBase(); err != nil {
		return err
	}
	for _, step := range []func(*upper) error{c.expect, c.takeMoved, c.takeWhiteouts} {
		if err := step(u); err != nil {
			return err
		}
	}
	if err := c.takeRules(u); err != nil {
		return err
	}
	w = &walker{ctx: ctx, limit: c.Caps.Entries, deeper: c.tooDeep, visit: func(e entry) (bool, error) {
		if isWhiteout(e) {
			c.digest(e)
			return false, nil
		}
		return c.visit(e)
	}}
	return w.root(c.Root)
}

func isWhiteout(e entry) bool { return e.kind() == unix.S_IFCHR && e.stat.Rdev == 0 }

// look is the visitor of the first walk.
func (u *upper) look(e entry) (bool, error) {
	switch {
	case isWhiteout(e):
		u.whiteouts[e.path] = true
	case e.kind() != unix.S_IFDIR:
		u.files[e.path] = true
	default:
		dir, _ := splitPath(e.path)
		from := u.origin[strings.TrimSuffix(dir, "/")]
		mark, err := u.marks(e)
		if err != nil {
			return false, err
		}
		switch {
		case mark == opaque || from == noOrigin && !strings.HasPrefix(mark, "/"):
			from = noOrigin
		case strings.HasPrefix(mark, "/"):
			from = mark[1:]
		case mark != "":
			from = path.Join(from, mark)
		default:
			from = path.Join(from, e.name)
		}
		u.origin[e.path] = from
	}
	return true, nil
}

// opaque stands for the mark of a directory that hides what is below.
const opaque = "\x00"

// marks reads what the kernel has noted of a directory: opaque, the old name or path of a renamed one, or nothing.
func (u *upper) marks(e entry) (string, error) {
	fd, err := openDir(e.dir, e.name)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	prefix := "user.overlay."
	if u.Root {
		prefix = "trusted.overlay."
	}
	at := fmt.Sprintf("/proc/self/fd/%d", fd) // the descriptor is one of a path only, as the directory may be closed to us
	buf := make([]byte, unix.PathMax+1)
	if n, err := unix.Getxattr(at, prefix+"opaque", buf); err == nil && string(buf[:n]) == "y" {
		return opaque, nil
	} else if err != nil && !errors.Is(err, unix.ENODATA) {
		return "", fmt.Errorf("marks of %q: %w", e.path, err)
	}
	n, err := unix.Getxattr(at, prefix+"redirect", buf)
	if errors.Is(err, unix.ENODATA) {
		return "", nil
	}
	if err != nil || !u.Root {
		return "", fmt.Errorf("marks of %q: it was renamed, which only root's overlays have: %w", e.path, err)
	}
	return string(buf[:n]), nil
}

// expect makes the baseline of the files that the second walk will meet, and of those that it should meet and will not.
func (c *collector) expect(u *upper) error {
	for p := range u.files {
		n, err := u.trees.get(p)
		if err != nil {
			return err
		}
		switch n.Mode {
		case "":
		case objects.ModeTree: // a file took the place of a directory
			c.deleted = append(c.deleted, p)
		default:
			c.Baseline.files[p] = &stamp{mode: n.Mode}
		}
	}
	for p, from := range u.origin {
		n, err := u.trees.get(p)
		if err != nil {
			return err
		}
		if n.Mode != "" && n.Mode != objects.ModeTree { // a directory took the place of a file, or is a submodule's
			c.Baseline.files[p] = &stamp{mode: n.Mode}
		}
		if n.Mode != objects.ModeTree || from == p {
			continue
		}
		err = u.trees.walk(p, func(at string, n objects.Node) error {
			if c.Baseline.files[at] == nil {
				c.Baseline.files[at] = &stamp{mode: n.Mode}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// takeMoved takes what shows through at another place than in the base: in directories that were renamed, all that was not written.
func (c *collector) takeMoved(u *upper) error {
	for p, from := range u.origin {
		if from == p || from == noOrigin {
			continue
		}
		in, err := u.trees.dir(from)
		if err != nil {
			return err
		}
		for name, n := range in {
			at := path.Join(p, name)
			_, isDir := u.origin[at]
			if u.whiteouts[at] || u.files[at] || isDir {
				continue
			}
			if n.Mode != objects.ModeTree {
				c.moved(at, path.Join(from, name), n)
				continue
			}
			below := path.Join(from, name)
			err := u.trees.walk(below, func(old string, n objects.Node) error {
				c.moved(at+strings.TrimPrefix(old, below), old, n)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *collector) moved(to, from string, n objects.Node) {
	was := c.Baseline.files[to]
	if was != nil {
		was.found = true
	}
	ch := change{path: to, as: to, mode: n.Mode, object: n.ID, lower: from, tracked: was != nil || n.Mode == objects.ModeRepo}
	if c.Everything {
		ch.as = escapePath(to)
	}
	if _, base := splitPath(to); n.Mode != objects.ModeLink && n.Mode != objects.ModeRepo && (base == ".gitignore" || base == ".gitattributes") {
		c.rules = append(c.rules, ch)
	}
	c.changes = append(c.changes, ch)
}

// takeWhiteouts takes what was deleted: a whole directory by its name alone.
func (c *collector) takeWhiteouts(u *upper) error {
	for p := range u.whiteouts {
		n, err := u.trees.get(p)
		if err != nil {
			return err
		}
		if n.Mode != "" && c.Baseline.files[p] == nil {
			c.deleted = append(c.deleted, p)
		}
	}
	return nil
}

// takeRules takes the rule files of the base that hold for something that was written: its directories are in the upper layer.
func (c *collector) takeRules(u *upper) error {
	for _, r := range c.Layer.Rules {
		dir, name := splitPath(r)
		if _, written := u.origin[strings.TrimSuffix(dir, "/")]; !written {
			continue
		}
		if name == ".gitattributes" {
			c.baseAttributes = append(c.baseAttributes, r)
		}
		if !u.visible(r) {
			continue
		}
		n, err := u.trees.get(r)
		if err != nil {
			return err
		}
		if n.Mode != objects.ModeFile && n.Mode != objects.ModeExec { // git follows no link for rules
			continue
		}
		f, err := c.Layer.open(r)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		f.Close()
		if err != nil {
			return err
		}
		c.rules = append(c.rules, change{path: r, as: r, mode: objects.ModeFile, size: info.Size(), lower: r, tracked: true})
	}
	return nil
}

// visible says whether a file of the base shows through at its place.
func (u *upper) visible(p string) bool {
	if _, isDir := u.origin[p]; isDir || u.files[p] || u.whiteouts[p] {
		return false
	}
	for i := range p {
		if p[i] != '/' {
			continue
		}
		from, isDir := u.origin[p[:i]]
		switch {
		case isDir && from != p[:i], u.files[p[:i]], u.whiteouts[p[:i]]:
			return false
		case !isDir: // nothing of it was written
			return true
		}
	}
	return true
}

// open opens a file of the base.
func (l *Layer) open(name string) (*os.File, error) {
	err := error(fs.ErrNotExist)
	for _, dir := range l.Lower {
		var root, f *os.File
		if root, err = os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
			return nil, err
		}
		f, err = openFile(int(root.Fd()), name)
		root.Close()
		if err == nil {
			return f, nil
		}
	}
	return nil, fmt.Errorf("the base has no %q: %w", name, err)
}
