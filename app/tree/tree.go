// Package tree reads the files of a commit out of a bare repository.
//
// It reads objects, and nothing else: no working tree, configuration, attribute or filter has a part in it, since all of those may be
// somebody else's. The package must not write, fetch, or make anything of a name that it gives.
package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// Tree is the tree of a commit. It is for one goroutine.
type Tree struct {
	dir, commit string
	objects     storer.EncodedObjectStorer
	root        *object.Tree
}

// Open opens the tree of a commit in the bare repository at dir.
func Open(dir, commit string) (*Tree, error) {
	t := &Tree{dir: dir, commit: commit}
	if err := t.look(func() error { return nil }); err != nil {
		return nil, err
	}
	return t, nil
}

// look does something with the root. A repack takes away the files that go-git has listed, after it has written others with the same
// objects: then the repository is opened anew, as git itself does it. The second repack in so short a time would be a wonder.
func (t *Tree) look(do func() error) (err error) {
	for range 3 {
		if t.root == nil {
			err = t.open()
		}
		if t.root != nil {
			err = do()
		}
		if !errors.Is(err, plumbing.ErrObjectNotFound) && !errors.Is(err, dotgit.ErrPackfileNotFound) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		t.root = nil
	}
	return err
}

func (t *Tree) open() error {
	repo, err := gogit.PlainOpen(t.dir)
	if err != nil {
		return fmt.Errorf("store %s: %w", t.dir, err)
	}
	c, err := repo.CommitObject(plumbing.NewHash(t.commit))
	if err != nil {
		return fmt.Errorf("commit %s: %w", t.commit, err)
	}
	t.objects = repo.Storer
	if t.root, err = c.Tree(); err != nil {
		return fmt.Errorf("tree of %s: %w", t.commit, err)
	}
	return nil
}

// Exists says whether there is a regular file.
func (t *Tree) Exists(path string) (exists bool) {
	err := t.look(func() error {
		entry, err := t.root.FindEntry(path)
		exists = err == nil && (entry.Mode == filemode.Regular || entry.Mode == filemode.Executable || entry.Mode == filemode.Deprecated)
		return err
	})
	return err == nil && exists
}

// mostRead bounds what is read of one file; a Makefile or an AGENTS.md is far below it.
const mostRead = 4 << 20

// Read gives a regular file, whole.
func (t *Tree) Read(path string) (text []byte, err error) {
	err = t.look(func() error {
		text, err = t.read(path)
		return err
	})
	return text, err
}

func (t *Tree) read(path string) ([]byte, error) {
	// Not Tree.File, to which all that goes wrong is a missing file.
	entry, err := t.root.FindEntry(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file, err := t.root.TreeEntryFile(entry)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.Size > mostRead {
		return nil, fmt.Errorf("%s: %d bytes are more than the %d that are read", path, file.Size, mostRead)
	}
	r, err := file.Reader()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text, err := io.ReadAll(r)
	return text, errors.Join(err, r.Close())
}

// Paths lists everything that is no directory, and apart from it the submodules, without reading a blob. It gives every name that git
// checks out, also one with a line break, which go-git would refuse: nothing is made of a name here, and who writes files by it looks.
func (t *Tree) Paths() (paths, submodules []string, err error) {
	err = t.look(func() error {
		paths, submodules, err = t.paths()
		return err
	})
	return paths, submodules, err
}

// deepest is the limit of git, core.maxTreeDepth: https://git-scm.com/docs/git-config
const deepest = 2048

// paths does not use go-git's TreeWalker, to which a directory that it cannot read is the end of the tree.
func (t *Tree) paths() (paths, submodules []string, err error) {
	var walk func(prefix string, dir *object.Tree) error
	walk = func(prefix string, dir *object.Tree) error {
		for _, entry := range dir.Entries {
			switch name := prefix + entry.Name; entry.Mode {
			case filemode.Submodule:
				submodules = append(submodules, name)
			case filemode.Dir:
				inner, err := object.GetTree(t.objects, entry.Hash)
				if err == nil && strings.Count(name, "/") >= deepest {
					err = fmt.Errorf("more than %d directories one in the other", deepest)
				}
				if err != nil {
					return fmt.Errorf("tree: %w", err)
				}
				if err := walk(name+"/", inner); err != nil {
					return err
				}
			default:
				paths = append(paths, name)
			}
		}
		return nil
	}
	err = walk("", t.root)
	return paths, submodules, err
}
