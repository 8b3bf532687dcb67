package objects

import (
	"slices"
	"strings"
)

// Change is a path at which two trees have different entries that are not trees; the zero Node is none.
type Change struct {
	Path    string
	Was, Is Node
}

// Diff lists what differs between two trees, in the order of the paths. It gives up, and says that this is not all, when there is more
// than most. Of what is the same in both nothing is read.
func (r *Reader) Diff(was, is string, most int) (list []Change, all bool, err error) {
	d := differ{r: r, most: most}
	if err := d.compare("", Node{ModeTree, was}, Node{ModeTree, is}); err != nil || len(d.list) > most {
		return nil, false, err
	}
	slices.SortFunc(d.list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return d.list, true, nil
}

type differ struct {
	r    *Reader
	list []Change
	most int
}

func (d *differ) compare(at string, was, is Node) error {
	if was == is || len(d.list) > d.most {
		return nil
	}
	old, err := d.below(was)
	if err != nil {
		return err
	}
	now, err := d.below(is)
	if err != nil {
		return err
	}
	if c := (Change{at, leaf(was), leaf(is)}); c.Was != c.Is {
		d.list = append(d.list, c)
	}
	if at != "" {
		at += "/"
	}
	for name, n := range old {
		if err := d.compare(at+name, n, now[name]); err != nil {
			return err
		}
	}
	for name, n := range now {
		if _, both := old[name]; both {
			continue
		}
		if err := d.compare(at+name, Node{}, n); err != nil {
			return err
		}
	}
	return nil
}

// below gives the entries of a tree; none of what is no tree.
func (d *differ) below(n Node) (Entries, error) {
	if n.Mode != ModeTree {
		return nil, nil
	}
	return d.r.Tree(n.ID)
}

// leaf is none for a tree.
func leaf(n Node) Node {
	if n.Mode == ModeTree {
		return Node{}
	}
	return n
}
