package collect

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// agentIndex is what the index that a sandbox has left says of what its files cannot show. It is a claim: of it are taken only which
// files are left out on purpose, and where submodules are said to be.
type agentIndex struct {
	absent map[string]bool   // files with the mark skip-worktree, and directories of a sparse index, which end with a slash
	links  map[string]string // commits of submodules, by their paths
}

// mostIndex is what is read of an index, and what is kept of it: a million files have about 100 MB. Version 4 writes a path as what
// differs from the one before, so that a small index can have large paths.
const mostIndex = 256 << 20

var errIndex = errors.New("the sandbox's git index cannot be read")

// readWritten reads a regular file of a directory that a sandbox has written; nil when there is none.
func readWritten(dir, name string, limit int64) ([]byte, error) {
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openFile(int(root.Fd()), name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%w: %q is %v of %d bytes", errIndex, name, info.Mode(), info.Size())
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// What an entry holds before its path: 40 bytes of what the file system said, the id, flags, and in an extended entry more of them.
const (
	entryMode  = 24
	entryID    = 40
	entryFlags = entryID + 20
	entryHead  = entryFlags + 2

	flagExtended = 0x4000
	flagStage    = 0x3000
	flagSkip     = 0x4000 // of the further ones: skip-worktree
)

// parseIndex reads versions 2 to 4, as gitformat-index(5) describes them.
func parseIndex(data []byte) (*agentIndex, error) {
	x := &agentIndex{absent: map[string]bool{}, links: map[string]string{}}
	if len(data) < 12 || string(data[:4]) != "DIRC" {
		return nil, fmt.Errorf("%w: it is none", errIndex)
	}
	version, count, rest := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:]), data[12:]
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("%w: its version is %d", errIndex, version)
	}
	var name []byte
	kept := 0
	for range count {
		if len(rest) < entryHead {
			return nil, fmt.Errorf("%w: it ends too early", errIndex)
		}
		head, size, further := rest, entryHead, uint16(0)
		flags := binary.BigEndian.Uint16(rest[entryFlags:])
		if flags&flagExtended != 0 && len(rest) >= size+2 {
			further, size = binary.BigEndian.Uint16(rest[size:]), size+2
		}
		var n int
		if name, n = entryName(version, name, rest[size:], size); n < 0 {
			return nil, fmt.Errorf("%w: it ends too early", errIndex)
		}
		rest = rest[size+n:]
		if kept += len(name); kept > mostIndex {
			return nil, fmt.Errorf("%w: its paths have more than %d bytes", errIndex, mostIndex)
		}
		switch mode := binary.BigEndian.Uint32(head[entryMode:]); {
		case flags&flagStage != 0: // a merge that is not finished
		case mode == 0o160000:
			x.links[string(name)] = hex.EncodeToString(head[entryID:entryFlags])
		case further&flagSkip != 0:
			x.absent[string(name)] = true
		}
	}
	return x, nil
}

// entryName gives the path of an entry and how many bytes it takes, with what fills the entry up; -1: more than there are. In version 4
// it says how much of the path before is not in it, and what is in its place.
func entryName(version uint32, before, rest []byte, head int) ([]byte, int) {
	if version < 4 {
		end := bytes.IndexByte(rest, 0)
		if end < 0 || (head+end+8)&^7-head > len(rest) {
			return nil, -1
		}
		return rest[:end], (head+end+8)&^7 - head
	}
	var cut, i int
	for more := true; more; i++ { // 7 bits a byte, highest first, each further byte stands for one more
		if i >= len(rest) || i > 4 {
			return nil, -1
		}
		if i > 0 {
			cut++
		}
		cut, more = cut<<7|int(rest[i]&0x7f), rest[i]&0x80 != 0
	}
	end := bytes.IndexByte(rest[i:], 0)
	if end < 0 || cut > len(before) {
		return nil, -1
	}
	return append(slices.Clip(before[:len(before)-cut]), rest[i:i+end]...), i + end + 1
}

// has says whether a file is left out on purpose.
func (x *agentIndex) has(p string) bool {
	if x.absent[p] {
		return true
	}
	for i := range p {
		if p[i] == '/' && x.absent[p[:i+1]] {
			return true
		}
	}
	return false
}

// askIndex takes from the sandbox's index what git add would: files that a sparse checkout leaves out are not deleted, and a submodule
// is where the index says. The index is read only where that can matter, as it has all files of the repository.
func (c *collector) askIndex() error {
	if c.Everything || c.Git == "" {
		return nil
	}
	if _, err := os.Lstat(path.Join(c.Git, "index")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	t, err := c.openBase()
	if err != nil {
		return err
	}
	sparse, err := readWritten(c.Git, "info/sparse-checkout", mostIndex)
	if err != nil {
		return err
	}
	modules, err := t.get(".gitmodules")
	if err != nil || (sparse == nil || len(c.deleted) == 0) && modules.Mode == "" {
		return err
	}
	data, err := readWritten(c.Git, "index", mostIndex)
	if err != nil {
		return err
	}
	x, err := parseIndex(data)
	if err != nil {
		return err
	}
	if sparse != nil && len(x.absent) > 0 {
		if err := c.keepAbsent(t, x); err != nil {
			return err
		}
	}
	return c.takeLinks(t, x)
}

// keepAbsent takes the files that are left out on purpose from what was deleted.
func (c *collector) keepAbsent(t *trees, x *agentIndex) error {
	var deleted []string
	kept := 0
	judge := func(p string, _ objects.Node) error {
		if x.has(p) {
			kept++
		} else {
			deleted = append(deleted, p)
		}
		return nil
	}
	for _, p := range c.deleted {
		n, err := t.get(p)
		if err == nil && n.Mode == objects.ModeTree {
			err = t.walk(p, judge)
		} else if err == nil {
			err = judge(p, n)
		}
		if err != nil {
			return err
		}
	}
	if kept > 0 {
		c.notes.add("git.sparse", "low", fmt.Sprintf("%d files are not there because of a sparse checkout: they are left as they are in the base", kept))
	}
	slices.Sort(deleted)
	c.deleted = deleted
	return nil
}

// takeLinks takes the commits of submodules that the index has and the base not. A submodule that is new is told: nobody has looked
// at where it comes from.
func (c *collector) takeLinks(t *trees, x *agentIndex) error {
	written := map[string]bool{}
	for _, ch := range c.changes {
		written[ch.path] = true
	}
	for _, p := range c.deleted {
		written[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(x.links)) {
		id := x.links[p]
		was, err := t.get(p)
		if err != nil {
			return err
		}
		at, gone := p, false
		for ; at != "." && !gone; at = path.Dir(at) {
			gone = written[at]
		}
		switch {
		case was.ID == id || gone:
		case was.Mode == objects.ModeRepo:
			c.changes = append(c.changes, change{path: p, as: p, mode: objects.ModeRepo, object: id, tracked: true})
			c.notes.add("git.submodule", "low", fmt.Sprintf("%s is moved to commit %s by the index", p, id))
		default:
			c.notes.add("git.submodule", "medium", p+" is new in the index only, and not taken")
		}
	}
	return nil
}
