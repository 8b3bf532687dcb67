package collect

import (
	"path"
	"strings"
	"unicode/utf8"
)

// isGit says whether some file system would take a name for .git: HFS+ ignores case and some invisible characters, NTFS
// ignores case, trailing spaces and dots, has streams after a colon, takes \ for a slash, and knows .git as git~1 too. Git
// refuses such names itself (core.protectHFS, core.protectNTFS; CVE-2014-9390, CVE-2019-1353), but fast-import does not.
func isGit(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		part = strings.ToLower(visible(part))
		part, _, _ = strings.Cut(part, ":")
		part = strings.TrimRight(part, " .")
		if part == ".git" || part == "git~1" {
			return true
		}
	}
	return false
}

// visible drops the characters that HFS+ ignores in names (next_hfs_char in utf8.c of git).
func visible(name string) string {
	if !utf8.ValidString(name) {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
}

// forbidden says whether a name may not be in a tree of git.
func forbidden(name string) bool { return name == "" || name == "." || name == ".." || isGit(name) }

// Escape gives the name under which a name that git does not take is kept in the snapshot of a discarded workspace: with
// a % in front. Names that begin with a % get one too, so that taking one away restores every name.
func Escape(name string) string {
	if forbidden(name) || strings.HasPrefix(name, "%") {
		return "%" + name
	}
	return name
}

// leaves says whether a symbolic link at a path points out of the tree.
func leaves(at, target string) bool {
	if path.IsAbs(target) {
		return true
	}
	p := path.Join(path.Dir(at), target)
	return p == ".." || strings.HasPrefix(p, "../")
}
