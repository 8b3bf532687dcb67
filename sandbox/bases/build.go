package bases

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/gitindex"
)

// build makes a base. The exclusive lock is held: what lies in the way is what a crash has left, or was found to be of no use.
func (b *Bases) build(ctx context.Context, key, commit string) error {
	old, fresh := b.at(key, commit), b.at(key, commit)+".new"
	if n := b.leases(key, commit); n > 0 {
		return fmt.Errorf("what lies there is of no use, and %d runs or bases need it", n)
	}
	start := b.o.Now()
	for _, dir := range []string{old, fresh} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	base, err := b.fill(ctx, key, commit, fresh)
	if err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	// Nothing of a base is waited for: see Sync.
	if err := durable.ReplaceJSON(filepath.Join(fresh, "base.json"), base); err != nil {
		return err
	}
	if err := os.Rename(fresh, old); err != nil {
		return err
	}
	b.o.Log.Info("base made", "key", key, "commit", commit, "files", base.Files, "bytes", base.Bytes, "layers", len(base.Layers), "took", b.o.Now().Sub(start))
	return nil
}

// fill makes a base in a new directory: over the nearest one that is there, if there is one and it is near, else whole.
func (b *Bases) fill(ctx context.Context, key, commit, dir string) (Base, error) {
	base := Base{Commit: commit, Layers: []string{commit}, User: b.user(), Boot: b.boot, dir: b.repo(key)}
	for _, d := range []string{"", "leases", "tree", "git"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return base, err
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return base, err
	}
	if err := b.o.GitDir(filepath.Join(dir, "git"), b.o.Store.Dir(key), commit); err != nil {
		return base, err
	}
	derived, err := b.derive(ctx, key, dir, &base)
	if err != nil {
		return base, err
	}
	if !derived {
		if err := b.checkout(ctx, key, commit, dir); err != nil {
			return base, err
		}
		if err := b.settle(ctx, dir, &base); err != nil {
			return base, err
		}
		if err := os.WriteFile(filepath.Join(dir, "tree", ".git"), []byte(b.o.GitFile), 0o444); err != nil {
			return base, err
		}
	}
	if b.user() != os.Geteuid() {
		if err := os.Lchown(filepath.Join(dir, "tree"), b.user(), b.user()); err != nil {
			return base, err
		}
	}
	return base, b.own(dir, "tree/.git", "git")
}

// checkout lets git make the files, and an index with what they are on the disk. Two workers: 0.65 to 0.82 of the time of one on two
// cores, and 4 or 8 bring no more.
func (b *Bases) checkout(ctx context.Context, key, commit, dir string) error {
	_, err := b.o.Store.Run(ctx, key, git.Call{
		WorkTree: filepath.Join(dir, "tree"), Dir: "/", Index: filepath.Join(dir, "git", "index"),
		Config: []string{"core.bare=false", "checkout.workers=2", "index.version=2"},
		Args:   []string{"read-tree", "--reset", "-u", commit},
	})
	return err
}

// own gives what we have made to the owner of bases, with all below it.
func (b *Bases) own(dir string, names ...string) error {
	if b.user() == os.Geteuid() {
		return nil
	}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				err = os.Lchown(path, b.user(), b.user())
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// settle checks that every file of the index is there, as git has left it, gives it to the owner of bases, and makes the index say
// so for good. Git takes a file that was written in the same second as its index, or later, for one that may have changed, and
// reads it again on each status (racy-git in its documentation): such files are made a little older. What is changed in a run
// has a later time.
func (b *Bases) settle(ctx context.Context, dir string, base *Base) error {
	file := filepath.Join(dir, "git", "index")
	index, err := readIndex(file, len(base.Commit)/2)
	if err != nil {
		return err
	}
	tree, err := os.OpenFile(filepath.Join(dir, "tree"), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer tree.Close()
	base.Files = index.Len()
	for e := range index.Entries(0, base.Files) {
		base.note(e)
	}
	// As many at a time as git had workers.
	half := base.Files / 2
	parts := []*settler{b.newSettler(int(tree.Fd())), b.newSettler(int(tree.Fd()))}
	errs := make([]error, len(parts))
	var both sync.WaitGroup
	both.Go(func() { errs[0] = parts[0].all(ctx, index.Entries(0, half)) })
	both.Go(func() { errs[1] = parts[1].all(ctx, index.Entries(half, base.Files)) })
	both.Wait()
	base.Bytes += parts[0].bytes + parts[1].bytes
	if err := errors.Join(errs...); err != nil || !parts[0].changed && !parts[1].changed {
		return err
	}
	return writeIndex(file, index)
}

const gitLink = 0o160000

var ignoreName, attributesName = []byte(".gitignore"), []byte(".gitattributes")

// settler goes through a fresh checkout.
type settler struct {
	tree    int
	owner   int // -1: files stay who they belong to
	now     int64
	dirs    map[string]bool // that have their owner
	changed bool            // the index has to be written
	bytes   int64           // on the disk
}

func (s *settler) all(ctx context.Context, entries iter.Seq[gitindex.Entry]) error {
	i := 0
	for e := range entries {
		if i++; i%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.above(e); err != nil {
			return err
		}
		if e.Mode() == gitLink {
			continue
		}
		if err := s.file(e); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bases) newSettler(tree int) *settler {
	s := &settler{tree: tree, owner: -1, now: time.Now().Unix(), dirs: map[string]bool{"": true}}
	if b.user() != os.Geteuid() {
		s.owner = b.user()
	}
	return s
}

// note keeps the name of a file that has rules for others.
func (base *Base) note(e gitindex.Entry) {
	if name := e.Name(); bytes.Equal(name, ignoreName) || bytes.Equal(name, attributesName) {
		base.Rules = append(base.Rules, e.Path())
	}
}

// follow takes the rules of another base, but for what differs.
func (base *Base) follow(d difference) {
	changed := map[string]bool{}
	for _, p := range d.gone {
		changed[p] = true
	}
	for _, e := range d.put {
		changed[e.Path()] = true
		base.note(e)
	}
	for _, p := range d.from.Rules {
		if !changed[p] {
			base.Rules = append(base.Rules, p)
		}
	}
	slices.Sort(base.Rules)
}

// file settles one file, if it needs it: gives it a time in the past and its owner, and makes the index know it so.
func (s *settler) file(e gitindex.Entry) error {
	path := e.Path()
	young := e.Mtime() >= s.now-1 || e.Mtime() == 0 // 0: nothing is known of it
	if young {
		at := unix.Timespec{Sec: s.now - 10}
		if err := unix.UtimesNanoAt(s.tree, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("time of %q: %w", path, err)
		}
	}
	if s.owner >= 0 {
		if err := unix.Fchownat(s.tree, path, s.owner, s.owner, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("owner of %q: %w", path, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstatat(s.tree, path, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("the checkout has no %q: %w", path, err)
	}
	if !e.Was(&st) {
		return fmt.Errorf("the checkout has another %q than git says", path)
	}
	s.bytes += st.Blocks * 512
	if e.Same(&st) {
		return nil
	}
	if !young && s.owner < 0 {
		return fmt.Errorf("%q was changed after its checkout", path)
	}
	s.changed = true
	e.SetStat(&st)
	return nil
}

// above settles the directories above an entry; one that is a submodule's is empty, and git does not look at its times.
func (s *settler) above(e gitindex.Entry) error {
	if s.owner < 0 {
		return nil
	}
	path := e.Path()
	if e.Mode() == gitLink {
		path += "/"
	}
	for i := len(path) - 1; i > 0; i-- {
		if path[i] != '/' {
			continue
		}
		if s.dirs[path[:i]] {
			return nil
		}
		s.dirs[path[:i]] = true
		if err := unix.Fchownat(s.tree, path[:i], s.owner, s.owner, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("owner of %q: %w", path[:i], err)
		}
	}
	return nil
}

func readIndex(file string, idSize int) (*gitindex.Index, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return gitindex.Parse(data, idSize)
}

func writeIndex(file string, index *gitindex.Index) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(index.Write(f), f.Close())
}

func parseID(s string) ([]byte, error) {
	id, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("object id %q: %w", s, err)
	}
	return id, nil
}
