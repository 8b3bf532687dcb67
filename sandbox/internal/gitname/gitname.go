// Package gitname knows the names that git does not take into a tree, and how a snapshot of a discarded workspace keeps them.
package gitname

import (
	"path"
	"strings"
	"unicode/utf8"
)

// IsGit says whether some file system would take a name for .git: HFS+ ignores case and some invisible characters, NTFS
// ignores case, trailing spaces and dots, has streams after a colon, takes \ for a slash, and knows .git as git~1 too. Git
// refuses such names itself (core.protectHFS, core.protectNTFS; CVE-2014-9390, CVE-2019-1353), but fast-import does not.
func IsGit(name string) bool {
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

// Forbidden says whether a name may not be in a tree of git.
func Forbidden(name string) bool { return name == "" || name == "." || name == ".." || IsGit(name) }

// Escape gives the name under which a name that git does not take is kept in the snapshot of a discarded workspace: with
// a % in front. Names that begin with a % get one too, so that taking one away restores every name.
func Escape(name string) string {
	if Forbidden(name) || strings.HasPrefix(name, "%") {
		return "%" + name
	}
	return name
}

// Unescape gives a path of a snapshot its names back, but for those that git or a file system would take for .git: whoever works in
// a directory that a sandbox has filled runs git there, which does what the configuration in .git says.
func Unescape(p string) string {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		was, escaped := strings.CutPrefix(part, "%")
		if name := strings.TrimLeft(was, "%"); escaped && was != "" && (name == "" || !Forbidden(name)) {
			parts[i] = was
		}
	}
	return path.Join(parts...)
}
