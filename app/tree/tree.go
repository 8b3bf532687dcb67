// Package tree reads the files of a commit out of a bare repository.
//
// It reads objects, and nothing else: no working tree, configuration, attribute or filter has a part in it, since all of those may be
// somebody else's. The package must not write, fetch, or make anything of a name that it gives.
package tree

import (
	"errors"
	"fmt"
	"io"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Tree is the tree of a commit.
type Tree struct {
	root *object.Tree
}

// Open opens the tree of a commit in the bare repository at dir.
func Open(dir, commit string) (*Tree, error) {
	repo, err := gogit.PlainOpen(dir)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	c, err := repo.CommitObject(plumbing.NewHash(commit))
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", commit, err)
	}
	root, err := c.Tree()
	if err != nil {
		return nil, fmt.Errorf("tree of %s: %w", commit, err)
	}
	return &Tree{root: root}, nil
}

// Exists says whether there is a regular file.
func (t *Tree) Exists(path string) bool {
	entry, err := t.root.FindEntry(path)
	return err == nil && (entry.Mode == filemode.Regular || entry.Mode == filemode.Executable || entry.Mode == filemode.Deprecated)
}

// mostRead bounds what is read of one file; a Makefile or an AGENTS.md is far below it.
const mostRead = 4 << 20

// Read gives a regular file, whole.
func (t *Tree) Read(path string) ([]byte, error) {
	file, err := t.root.File(path)
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
	walker := object.NewTreeWalker(t.root, true, nil)
	defer walker.Close()
	walker.SkipPathValidation()
	for {
		name, entry, err := walker.Next()
		switch {
		case errors.Is(err, io.EOF):
			return paths, submodules, nil
		case err != nil:
			return nil, nil, fmt.Errorf("tree: %w", err)
		case entry.Mode == filemode.Submodule:
			submodules = append(submodules, name)
		case entry.Mode != filemode.Dir:
			paths = append(paths, name)
		}
	}
}
