package collect

import (
	"path"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/gitname"
)

// forbidden says whether a name may not be in a tree of git.
func forbidden(name string) bool { return gitname.Forbidden(name) }

// Escape gives the name under which a name that git does not take is kept in the snapshot of a discarded workspace.
func Escape(name string) string { return gitname.Escape(name) }

// leaves says whether a symbolic link at a path points out of the tree.
func leaves(at, target string) bool {
	if path.IsAbs(target) {
		return true
	}
	p := path.Join(path.Dir(at), target)
	return p == ".." || strings.HasPrefix(p, "../")
}
