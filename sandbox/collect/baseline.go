package collect

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// stat is what the file system says of a file and changes whenever the file does. An agent can set the mtime, but not the ctime.
type stat struct {
	Mode         uint32
	Ino          uint64
	Size         int64
	Mtime, Ctime int64 // nanoseconds
}

func statOf(s *unix.Stat_t) stat {
	return stat{s.Mode, s.Ino, s.Size, s.Mtim.Nano(), s.Ctim.Nano()}
}

// statSize is the size of a stat in a file.
const statSize = 4 + 4*8

func (s stat) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, s.Mode)
	for _, v := range []uint64{s.Ino, uint64(s.Size), uint64(s.Mtime), uint64(s.Ctime)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func parseStat(b []byte) stat {
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(b[4+8*i:]) }
	return stat{binary.LittleEndian.Uint32(b), n(0), int64(n(1)), int64(n(2)), int64(n(3))}
}

// stamp is what a file was when the workspace was made.
type stamp struct {
	mode  string // git's, from the base
	stat  stat
	found bool // seen by the walk
}

// Baseline is what a workspace looked like when it was made: host's knowledge, kept where no sandbox reaches it. A file
// whose stamp is the same still has the content of the base and is not read again. In its file each record is the mode, the
// stat, the length of the path and the path.
type Baseline struct{ files map[string]*stamp }

// Snapshot walks a fresh workspace, gives everything in it to the owner (-1, -1: leaves it), and writes the baseline to file.
// tree is the base: `git ls-tree -r -z --full-tree` of it. Each path in it must be there, else the checkout was not complete.
// A nil tree stands for every file that is there.
func Snapshot(ctx context.Context, root, file string, tree []byte, uid, gid int) error {
	modes, err := parseTree(tree)
	if err != nil {
		return err
	}
	out, seen := []byte{}, 0
	var latest unix.Timespec
	w := &walker{ctx: ctx, limit: 1 << 30}
	w.visit = func(e entry) (bool, error) {
		if err := give(&e, uid, gid); err != nil {
			return false, err
		}
		mode, tracked := modes[e.path]
		if tree == nil && e.kind() != unix.S_IFDIR {
			mode, tracked = objects.ModeFile, true
		}
		if tracked {
			out = statOf(&e.stat).append(append(out, mode...))
			out = append(binary.AppendUvarint(out, uint64(len(e.path))), e.path...)
			seen++
		}
		if e.stat.Ctim.Nano() > latest.Nano() {
			latest = e.stat.Ctim
		}
		return true, nil
	}
	if err := give(&entry{name: root, path: root, dir: unix.AT_FDCWD}, uid, gid); err != nil {
		return err
	}
	if err := w.root(root); err != nil {
		return err
	}
	if tree != nil && seen != len(modes) {
		return fmt.Errorf("checkout of %s has %d of %d files", filepath.Base(root), seen, len(modes))
	}
	if err := outlast(ctx, filepath.Dir(file), latest.Nano()); err != nil {
		return err
	}
	return durable.Write(file, out)
}

// outlast waits until the file system gives a later time than t to what is written: a file system takes its times from a clock
// that ticks every 1 to 10 ms, and a write in the same tick would leave the ctime that is in the baseline.
func outlast(ctx context.Context, dir string, t int64) error {
	f, err := os.CreateTemp(dir, ".clock-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		var st unix.Stat_t
		if _, err := f.WriteAt([]byte{0}, 0); err != nil {
			return err
		}
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return err
		}
		if st.Mtim.Nano() > t {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return errors.New("the clock of the file system was set back")
}

// give changes the owner of one entry, not following links. The ctime of it changes with that.
func give(e *entry, uid, gid int) error {
	if uid < 0 {
		return nil
	}
	if err := unix.Fchownat(e.dir, e.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("change owner of %q: %w", e.path, err)
	}
	return unix.Fstatat(e.dir, e.name, &e.stat, unix.AT_SYMLINK_NOFOLLOW)
}

// parseTree reads the output of ls-tree -r -z: "mode type id\tpath\0".
func parseTree(out []byte) (map[string]string, error) {
	modes := make(map[string]string, bytes.Count(out, []byte{0}))
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if record == "" {
			continue
		}
		head, name, ok := strings.Cut(record, "\t")
		mode, _, _ := strings.Cut(head, " ")
		if !ok || len(mode) != 6 {
			return nil, fmt.Errorf("list of the tree: %q", record)
		}
		modes[name] = mode
	}
	return modes, nil
}

// LoadBaseline reads what Snapshot wrote.
func LoadBaseline(file string) (*Baseline, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	b := &Baseline{files: map[string]*stamp{}}
	const head = len(objects.ModeFile) + statSize
	for rest := data; len(rest) > 0; {
		if len(rest) < head {
			return nil, errors.New("baseline is damaged")
		}
		s := &stamp{mode: string(rest[:len(objects.ModeFile)]), stat: parseStat(rest[len(objects.ModeFile):])}
		length, n := binary.Uvarint(rest[head:])
		if rest = rest[head:]; n <= 0 || uint64(len(rest)-n) < length {
			return nil, errors.New("baseline is damaged")
		}
		b.files[string(rest[n:n+int(length)])] = s
		rest = rest[n+int(length):]
	}
	return b, nil
}

// same says whether the file at a path still is as it was, and that it was seen.
func (b *Baseline) same(e entry) (tracked, same bool) {
	s := b.files[e.path]
	if s == nil {
		return false, false
	}
	s.found = true
	return true, s.stat == statOf(&e.stat)
}

// attributes are the .gitattributes of the base that may hold for what was written, also those that were deleted: git takes them from
// its index.
func (c *collector) attributes() (paths []string) {
	if c.Layer != nil {
		return c.baseAttributes
	}
	for name := range c.Baseline.files {
		if path.Base(name) == ".gitattributes" {
			paths = append(paths, name)
		}
	}
	return paths
}
