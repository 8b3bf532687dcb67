package gitindex

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// change is what Edit does at one path.
type change struct {
	path string
	put  []byte // nil: the entry goes
	i    int    // the entry that goes, or before which one comes
	gone bool   // there is one
}

// Edit takes out the entries at some paths and puts others in; no path is named twice. What the index knows of the trees above them is forgotten.
func (x *Index) Edit(gone []string, put []Entry) error {
	changes := make([]change, 0, len(gone)+len(put))
	for _, p := range gone {
		changes = append(changes, change{path: p})
	}
	for _, e := range put {
		changes = append(changes, change{path: e.Path(), put: e.raw})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return strings.Compare(a.path, b.path) })
	var moves []change
	for _, c := range changes {
		c.i, c.gone = x.Find(c.path)
		switch {
		case c.gone && c.put != nil: // as long, since the path is
			copy(x.data[x.at[c.i]:], c.put)
		case c.gone || c.put != nil:
			moves = append(moves, c)
		}
	}
	if len(moves) > 0 {
		x.move(moves)
	}
	if len(x.tree) == 0 {
		return nil
	}
	var err error
	x.tree, err = forget(x.tree, changes, x.idSize)
	return err
}

// move makes the entries anew, with some less and some more, in the order of their places.
func (x *Index) move(moves []change) {
	more := 0
	for _, c := range moves {
		more += len(c.put)
	}
	data, at := make([]byte, 0, len(x.data)+more), make([]uint32, 0, len(x.at)+len(moves))
	from := 0
	upTo := func(to int) {
		for _, old := range x.at[from:to] {
			at = append(at, old-x.at[from]+uint32(len(data)))
		}
		data = append(data, x.data[x.at[from]:x.at[to]]...)
		from = to
	}
	for _, c := range moves {
		upTo(c.i)
		if c.gone {
			from++
			continue
		}
		at = append(at, uint32(len(data)))
		data = append(data, c.put...)
	}
	upTo(x.Len())
	x.data, x.at = data, append(at, uint32(len(data)))
}

// Some makes an index of entries, which knows no trees.
func Some(idSize int, entries []Entry) (*Index, error) {
	x := &Index{idSize: idSize, at: []uint32{0}}
	return x, x.Edit(nil, entries)
}

// forget marks the trees above some paths as unknown. The extension has, for each tree and before those in it: its name, a zero,
// the number of its files (-1: not known), a space, the number of trees in it, a line feed, and its id if it is known.
func forget(ext []byte, changes []change, idSize int) ([]byte, error) {
	touched := map[string]bool{"": true}
	for _, c := range changes {
		for i := range c.path {
			if c.path[i] == '/' {
				touched[c.path[:i]] = true
			}
		}
	}
	out := make([]byte, 0, len(ext))
	var tree func(prefix string) error
	tree = func(prefix string) error {
		name, rest, ok := bytes.Cut(ext, []byte{0})
		line, rest, ok2 := bytes.Cut(rest, []byte{'\n'})
		files, trees, ok3 := bytes.Cut(line, []byte{' '})
		below, err := strconv.Atoi(string(trees))
		if !ok || !ok2 || !ok3 || err != nil {
			return errDamaged
		}
		path := string(name)
		if prefix != "" {
			path = prefix + "/" + path
		}
		known := string(files) != "-1"
		if known && len(rest) < idSize {
			return errDamaged
		}
		out = append(append(out, name...), 0)
		switch {
		case known && !touched[path]:
			out = append(append(out, line...), '\n')
			out = append(out, rest[:idSize]...)
		default:
			out = append(append(append(out, "-1 "...), trees...), '\n')
		}
		if known {
			rest = rest[idSize:]
		}
		ext = rest
		for range below {
			if err := tree(path); err != nil {
				return err
			}
		}
		return nil
	}
	err := tree("")
	return out, err
}
