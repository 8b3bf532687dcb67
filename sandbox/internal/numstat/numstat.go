// Package numstat lists what differs between two commits as git diff-tree -r -M --raw --numstat does, without a git process, where there is
// no doubt what git would say: the start of one takes longer than all the rest of looking at what a run has changed.
//
// There is doubt where git guesses: whether a new file is a deleted one that was changed as well, and how many lines of a content are
// others where many would do. Attributes play no part: a bare repository has none (git 2.43 to 2.45 took those of its HEAD).
package numstat

import (
	"errors"
	"slices"
	"sort"
	"sync"

	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// Change is a path at which two commits differ.
type Change struct {
	objects.Change
	From           string // the old path of a rename
	Size           int64  // bytes of the new content
	Added, Removed int    // lines; -1 for both when it is not text
}

// ErrDoubt says that git has to be asked.
var ErrDoubt = errors.New("only git can say")

// Bounds of what is looked at. Of more, git is asked: its start is little beside the reading then.
const (
	mostChanges = 1000
	mostBytes   = 8 << 20 // for each reader
)

// readers are as many as read at once. A content may lie in a pack as the last of fifty differences, which takes 0.3 ms.
const readers = 2

// List gives the changes from one commit of a repository to another in the order of their paths, or ErrDoubt.
func List(gitDir, from, to string, renames bool) ([]Change, error) {
	r := objects.Open(gitDir)
	defer r.Close()
	was, err := r.Commit(from)
	if err != nil {
		return nil, err
	}
	is, err := r.Commit(to)
	if err != nil {
		return nil, err
	}
	found, all, err := r.Diff(was.Tree, is.Tree, mostChanges)
	if err != nil {
		return nil, err
	}
	if !all {
		return nil, ErrDoubt
	}
	list := make([]Change, len(found))
	for i, c := range found {
		list[i].Change = c
	}
	if renames {
		if list, err = pair(r, list); err != nil {
			return nil, err
		}
	}
	return list, countAll(gitDir, list)
}

// countAll fills in sizes and lines.
func countAll(gitDir string, list []Change) error {
	var all sync.WaitGroup
	errs := make([]error, min(readers, len(list)))
	for n := range errs {
		all.Go(func() {
			l := lister{objects.Open(gitDir), mostBytes}
			defer l.r.Close()
			for i := n; i < len(list) && errs[n] == nil; i += readers {
				errs[n] = l.count(&list[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

type lister struct {
	r    *objects.Reader
	left int64 // bytes that may be read
}

func (l *lister) count(c *Change) error {
	was, err := l.content(c.Was)
	if err != nil {
		return err
	}
	is := was
	if c.Is != c.Was {
		if is, err = l.content(c.Is); err != nil {
			return err
		}
	}
	if c.Is.Mode != objects.ModeRepo {
		c.Size = int64(len(is))
	}
	var sure bool
	if c.Added, c.Removed, sure = count(was, is); !sure {
		return ErrDoubt
	}
	return nil
}

// content is what git compares; nothing for no file.
func (l *lister) content(n objects.Node) (string, error) {
	switch n.Mode {
	case "":
		return "", nil
	case objects.ModeRepo:
		return "Subproject commit " + n.ID + "\n", nil
	}
	size, err := l.r.Size(n.ID)
	if err != nil {
		return "", err
	}
	if l.left -= size; l.left < 0 {
		return "", ErrDoubt
	}
	data, err := l.r.Expect(n.ID, objects.Blob)
	return string(data), err
}

// pair makes renames of files that are gone at one path and new at another one, if git can make only these.
func pair(r *objects.Reader, list []Change) ([]Change, error) {
	gone, come := map[objects.Node][]int{}, map[objects.Node][]int{}
	key := func(n objects.Node) objects.Node { // a file stays the same if it becomes executable, and nothing else that it becomes
		if regular(n) {
			n.Mode = objects.ModeFile
		}
		return n
	}
	for i, c := range list {
		switch {
		case c.Is.Mode == "":
			gone[key(c.Was)] = append(gone[key(c.Was)], i)
		case c.Was.Mode == "":
			come[key(c.Is)] = append(come[key(c.Is)], i)
		}
	}
	for n, to := range come {
		from := gone[n]
		if len(from) == 0 {
			continue
		}
		if len(from) > 1 || len(to) > 1 { // git chooses, by names among other things
			return nil, ErrDoubt
		}
		list[to[0]].From, list[to[0]].Was = list[from[0]].Path, list[from[0]].Was
		delete(gone, n)
		delete(come, n)
		list[from[0]].Path = ""
	}
	list = slices.DeleteFunc(list, func(c Change) bool { return c.Path == "" })
	return list, unlike(r, gone, come)
}

func regular(n objects.Node) bool { return n.Mode == objects.ModeFile || n.Mode == objects.ModeExec }

// unlike makes sure that no file that is left on one side can be one of the other that was changed as well: to git that takes two of which
// none is more than twice as long as the other (estimate_similarity in diffcore-rename.c, at the 50 per cent of -M). Only regular files
// can be such.
func unlike(r *objects.Reader, gone, come map[objects.Node][]int) error {
	if len(gone) == 0 || len(come) == 0 {
		return nil
	}
	sizes := func(of map[objects.Node][]int) (list []int64, err error) {
		for n := range of {
			if !regular(n) {
				continue
			}
			size, err := r.Size(n.ID)
			if err != nil {
				return nil, err
			}
			list = append(list, size)
		}
		slices.Sort(list)
		return list, nil
	}
	from, err := sizes(gone)
	if err != nil {
		return err
	}
	to, err := sizes(come)
	if err != nil {
		return err
	}
	for _, size := range to {
		i := sort.Search(len(from), func(i int) bool { return 2*from[i] >= size })
		if i < len(from) && from[i] <= 2*size {
			return ErrDoubt
		}
	}
	return nil
}
