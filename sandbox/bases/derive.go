package bases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/gitindex"
)

// difference is what lies between two commits.
type difference struct {
	from Base
	gone []string
	put  []gitindex.Entry
}

func (d difference) size() int { return len(d.gone) + len(d.put) }

// candidates is how many bases are compared with a new one: each comparison is a git process.
const candidates = 3

// enough ends the search: nothing is to be gained over a base of which less than one file in so many differs.
const enough = 1000

// derive makes a base as a layer over the one that is nearest, if one is so near that a tenth of the files differs at most. It may
// write only what differs: hard links to the other's files would change the ctime that the other's index relies on.
func (b *Bases) derive(ctx context.Context, key, dir string, base *Base) (bool, error) {
	near, err := b.nearest(ctx, key, base.Commit)
	if err != nil || near.from.Commit == "" {
		return false, err
	}
	lease := layerLease + base.Commit
	if _, err := b.lease(ctx, key, near.from.Commit, lease, flock.Shared); err != nil {
		return false, nil // it was removed in the meantime
	}
	err = b.layer(ctx, key, dir, base, near)
	if err == nil || ctx.Err() != nil {
		return err == nil, err
	}
	b.o.Log.Warn("base not derived", "key", key, "commit", base.Commit, "from", near.from.Commit, "err", err)
	tree := filepath.Join(dir, "tree")
	return false, errors.Join(b.Give(key, near.from.Commit, lease), os.RemoveAll(tree), os.Mkdir(tree, 0o755))
}

// nearest finds the base that differs least. One that cannot be compared is not near: the store may have been fetched anew, and not know
// its commit.
func (b *Bases) nearest(ctx context.Context, key, commit string) (best difference, err error) {
	all, _, err := b.list()
	if err != nil {
		return best, err
	}
	slices.SortFunc(all, func(a, b held) int { return b.used.Compare(a.used) })
	tried := 0
	for _, h := range all {
		from, err := b.read(h.key, h.commit)
		if err != nil || h.key != key || h.commit == commit || len(from.Layers) >= b.o.Layers {
			continue
		}
		if tried++; tried > candidates {
			break
		}
		d, err := b.compare(ctx, key, from, commit)
		if ctx.Err() != nil {
			return best, ctx.Err()
		}
		if err != nil {
			b.o.Log.Warn("base not compared", "key", key, "commit", commit, "with", h.commit, "err", err)
			continue
		}
		if d.size()*10 <= from.Files && (best.from.Commit == "" || d.size() < best.size()) {
			best = d
		}
		if d.size()*enough <= from.Files {
			break
		}
	}
	return best, nil
}

// compare lists what differs. A changed .gitattributes can change the content of any file: then everything does.
func (b *Bases) compare(ctx context.Context, key string, from Base, commit string) (difference, error) {
	d := difference{from: from}
	out, err := b.o.Store.Run(ctx, key, git.Call{Args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev",
		"--ignore-submodules=none", from.Commit, commit}})
	if err != nil {
		return d, err
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 { // ":oldmode newmode oldid newid status\0path\0"
		head := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(head) != 5 {
			return d, fmt.Errorf("compare %s with %s: %q from git", from.Commit, commit, fields[i])
		}
		name := fields[i+1]
		if path.Base(name) == ".gitattributes" {
			return difference{from: from, gone: make([]string, from.Files+1)}, nil
		}
		if head[4] == "D" {
			d.gone = append(d.gone, name)
			continue
		}
		mode, err := strconv.ParseUint(head[1], 8, 32)
		if err != nil {
			return d, err
		}
		id, err := parseID(head[3])
		if err != nil {
			return d, err
		}
		d.put = append(d.put, gitindex.New(name, uint32(mode), id))
	}
	return d, nil
}

// layer makes the directories of a base that holds only a difference.
func (b *Bases) layer(ctx context.Context, key, dir string, base *Base, d difference) error {
	index, err := readIndex(filepath.Join(d.from.GitDir(), "index"), len(base.Commit)/2)
	if err != nil {
		return err
	}
	if err := b.checkoutSome(ctx, key, dir, index, d); err != nil {
		return err
	}
	tree, err := os.OpenFile(filepath.Join(dir, "tree"), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer tree.Close()
	s := b.newSettler(int(tree.Fd()))
	for _, e := range d.put {
		if e.Mode() == gitLink {
			if err := os.MkdirAll(filepath.Join(dir, "tree", e.Path()), 0o755); err != nil {
				return err
			}
		}
	}
	if err := s.all(ctx, slices.Values(d.put)); err != nil {
		return err
	}
	base.Bytes += s.bytes
	if err := index.Edit(d.gone, d.put); err != nil {
		return err
	}
	if err := s.whiteouts(filepath.Join(dir, "tree"), index, d.gone); err != nil {
		return err
	}
	base.follow(d)
	base.Files = index.Len()
	base.Layers = append(base.Layers, d.from.Layers...)
	return writeIndex(filepath.Join(dir, "git", "index"), index)
}

// checkoutSome lets git make the files that differ, with all attributes of the tree in the index where it looks for them: those of the
// other base, which none of these is.
func (b *Bases) checkoutSome(ctx context.Context, key, dir string, whole *gitindex.Index, d difference) error {
	var names bytes.Buffer
	for _, e := range d.put {
		if e.Mode() != gitLink {
			names.WriteString(e.Path() + "\x00")
		}
	}
	if names.Len() == 0 {
		return nil
	}
	entries := slices.Clone(d.put)
	for _, p := range d.from.Rules {
		if i, ok := whole.Find(p); ok && bytes.Equal(whole.Entry(i).Name(), attributesName) {
			entries = append(entries, whole.Entry(i))
		}
	}
	some, err := gitindex.Some(len(d.from.Commit)/2, entries)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "part")
	defer os.Remove(file)
	if err := writeIndex(file, some); err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	_, err = b.o.Store.Run(ctx, key, git.Call{WorkTree: tree, Dir: tree, Index: file, Config: []string{"core.bare=false"},
		Args: []string{"checkout-index", "--force", "-z", "--stdin"}, Stdin: &names})
	return err
}

// whiteouts hides what is gone, where nothing has taken its place: a directory of which nothing is left goes as a whole, as it
// does in a checkout of git.
func (s *settler) whiteouts(tree string, index *gitindex.Index, gone []string) error {
	for _, p := range gone {
		for end := 1; end <= len(p); end++ {
			if end < len(p) && p[end] != '/' {
				continue
			}
			at := p[:end]
			isFile, isDir := has(index, at)
			if isDir && end < len(p) {
				continue
			}
			if !isFile && !isDir {
				if err := s.whiteout(tree, at); err != nil {
					return err
				}
			}
			break
		}
	}
	return nil
}

func (s *settler) whiteout(tree, p string) error {
	dir := filepath.Join(tree, filepath.Dir(p))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := s.above(gitindex.New(p, 0, nil)); err != nil {
		return err
	}
	// A device 0/0 is one that anybody may make, from Linux 5.8 on.
	err := unix.Mknodat(s.tree, p, unix.S_IFCHR, 0)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("whiteout of %q: %w", p, err)
	}
	return nil
}

// has says what an index has at a path.
func has(index *gitindex.Index, p string) (isFile, isDir bool) {
	_, isFile = index.Find(p)
	i, _ := index.Find(p + "/")
	return isFile, i < index.Len() && strings.HasPrefix(index.Entry(i).Path(), p+"/")
}
