package collect

import (
	"fmt"
	"path"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// trees reads the trees of one commit, and of them only those that are asked for.
type trees struct {
	objects *objects.Reader
	commit  objects.Head
	known   map[string]objects.Entries
}

func openTrees(gitDir, commit string) (*trees, error) {
	t := &trees{objects: objects.Open(gitDir), known: map[string]objects.Entries{}}
	var err error
	if t.commit, err = t.objects.Commit(commit); err != nil {
		t.objects.Close()
		return nil, fmt.Errorf("base: %w", err)
	}
	return t, nil
}

// get gives what the commit has at a path; the zero node when there is nothing.
func (t *trees) get(p string) (objects.Node, error) {
	if p == "" {
		return objects.Node{Mode: objects.ModeTree, ID: t.commit.Tree}, nil
	}
	dir, name := path.Split(p)
	in, err := t.dir(strings.TrimSuffix(dir, "/"))
	return in[name], err
}

// dir gives the entries of a directory of the commit; nil when there is none.
func (t *trees) dir(p string) (objects.Entries, error) {
	if in, ok := t.known[p]; ok {
		return in, nil
	}
	n, err := t.get(p)
	if err != nil {
		return nil, err
	}
	var in objects.Entries
	if n.Mode == objects.ModeTree {
		if in, err = t.objects.Tree(n.ID); err != nil {
			return nil, fmt.Errorf("base: directory %q: %w", p, err)
		}
	}
	t.known[p] = in
	return in, nil
}

// walk visits every file below a directory of the commit.
func (t *trees) walk(p string, visit func(path string, n objects.Node) error) error {
	in, err := t.dir(p)
	if err != nil {
		return err
	}
	for name, n := range in {
		at := path.Join(p, name)
		if n.Mode == objects.ModeTree {
			err = t.walk(at, visit)
		} else {
			err = visit(at, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
