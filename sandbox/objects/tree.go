package objects

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// The modes of entries of trees.
const (
	ModeFile = "100644"
	ModeExec = "100755"
	ModeLink = "120000"
	ModeRepo = "160000" // a gitlink: the commit of a submodule
	ModeTree = "040000"
)

// Node is an entry of a tree. The zero Node is none.
type Node struct{ Mode, ID string }

// Entries are those of one tree, by their names.
type Entries map[string]Node

// Tree reads the entries of a tree.
func (r *Reader) Tree(id string) (Entries, error) {
	data, err := r.Expect(id, Tree)
	if err != nil {
		return nil, err
	}
	in := Entries{}
	for len(data) > 0 {
		mode, rest, ok := bytes.Cut(data, []byte{' '})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(rest) < idSize {
			return nil, fmt.Errorf("tree %s: %w", id, git.ErrCorrupt)
		}
		in[string(name)] = Node{canonical(string(mode)), hex.EncodeToString(rest[:idSize])}
		data = rest[idSize:]
	}
	return in, nil
}

// canonical gives the mode as git takes it: old trees have modes such as 100664.
func canonical(mode string) string {
	switch {
	case mode == "40000":
		return ModeTree
	case strings.HasPrefix(mode, "100") && len(mode) == 6:
		if (mode[3]-'0')&1 != 0 {
			return ModeExec
		}
		return ModeFile
	}
	return mode
}

// encode writes a tree: "mode name\0" and the id of each entry, in the order of the names, those of trees as if they ended with a slash.
func (in Entries) encode() ([]byte, error) {
	key := func(name string) string {
		if in[name].Mode == ModeTree {
			return name + "/"
		}
		return name
	}
	names := slices.SortedFunc(maps.Keys(in), func(a, b string) int { return strings.Compare(key(a), key(b)) })
	var out []byte
	for _, name := range names {
		id, err := parseID(in[name].ID)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, strings.TrimPrefix(in[name].Mode, "0")...), ' '), name...)
		out = append(append(out, 0), id[:]...)
	}
	return out, nil
}

// Head is what is to be known of a commit.
type Head struct {
	Tree string
	When time.Time // of the committer
}

// Commit reads a commit: lines of "name value", then an empty one.
func (r *Reader) Commit(id string) (h Head, err error) {
	data, err := r.Expect(id, Commit)
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			break
		}
		switch {
		case words[0] == "tree" && len(words) == 2 && h.Tree == "":
			h.Tree = words[1]
		case words[0] == "committer" && len(words) > 2:
			seconds, err := strconv.ParseInt(words[len(words)-2], 10, 64)
			if err != nil {
				return h, fmt.Errorf("time of commit %s: %w", id, err)
			}
			h.When = time.Unix(seconds, 0)
		}
	}
	if h.Tree == "" || h.When.IsZero() {
		return h, fmt.Errorf("commit %s: %w", id, git.ErrCorrupt)
	}
	return h, nil
}
