package gitindex

import (
	"bytes"
	"slices"
	"strconv"
)

// Edit takes out the entries at some paths and puts others in. What the index knows of the trees above them is forgotten.
func (x *Index) Edit(gone []string, put []Entry) error {
	touched := make([]string, 0, len(gone)+len(put))
	touched = append(touched, gone...)
	out := make(map[string]bool, len(gone)+len(put))
	for _, p := range gone {
		out[p] = true
	}
	for _, e := range put {
		out[string(e.path)] = true
		touched = append(touched, string(e.path))
	}
	put = slices.Clone(put)
	slices.SortFunc(put, func(a, b Entry) int { return bytes.Compare(a.path, b.path) })
	entries := make([]Entry, 0, len(x.Entries)+len(put))
	for _, e := range x.Entries {
		for len(put) > 0 && bytes.Compare(put[0].path, e.path) < 0 {
			entries = append(entries, put[0])
			put = put[1:]
		}
		if !out[string(e.path)] {
			entries = append(entries, e)
		}
	}
	x.Entries = append(entries, put...)
	if len(x.tree) == 0 {
		return nil
	}
	var err error
	x.tree, err = forget(x.tree, touched, x.idSize)
	return err
}

// Only gives an index with some of the entries, which knows no trees.
func (x *Index) Only(keep func(Entry) bool) *Index {
	some := &Index{idSize: x.idSize}
	for _, e := range x.Entries {
		if keep(e) {
			some.Entries = append(some.Entries, e)
		}
	}
	return some
}

// forget marks the trees above some paths as unknown. The extension has, for each tree and before those in it: its name, a zero,
// the number of its files (-1: not known), a space, the number of trees in it, a line feed, and its id if it is known.
func forget(ext []byte, paths []string, idSize int) ([]byte, error) {
	touched := map[string]bool{"": true}
	for _, p := range paths {
		for i := range p {
			if p[i] == '/' {
				touched[p[:i]] = true
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
