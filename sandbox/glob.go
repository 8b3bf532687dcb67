package sandbox

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

const (
	globBytes = 1024 // of one glob
	mostGlobs = 100  // of one selection
)

// CheckGlob says whether a glob can be read, and is short enough to be matched with many paths.
func CheckGlob(glob string) error {
	if len(glob) > globBytes {
		return fmt.Errorf("has %d bytes, and may have %d", len(glob), globBytes)
	}
	for name := range strings.SplitSeq(glob, "/") {
		if _, err := path.Match(name, ""); err != nil {
			return errors.New(`has a [ without its ], or a \ at the end of a name`)
		}
	}
	return nil
}

// MatchGlob says whether a glob matches a path or a directory above it, so that one that names a directory, or ends with a slash,
// takes all that is below. Name by name it is path.Match, so {a,b} is no choice; ** is any number of names, at the end one
// or more. A glob that cannot be read matches nothing.
func MatchGlob(glob, p string) bool {
	glob = strings.TrimSuffix(strings.TrimPrefix(glob, "./"), "/")
	return matchNames(strings.Split(glob, "/"), strings.Split(p, "/"), true)
}

// MatchPath is MatchGlob for the path itself: "docs" is not "docs/a.md", which "docs/**" is.
func MatchPath(glob, p string) bool {
	return matchNames(strings.Split(glob, "/"), strings.Split(p, "/"), false)
}

// matchNames keeps only the last ** to come back to, as path.Match does with * in a name: what comes before it was matched as
// early as can be, and leaves the most to the rest. So its time is at most the length of the glob times that of the path,
// where trying each ** at each place takes 2^n. Below: what is left of p lies in what was named.
func matchNames(glob, p []string, below bool) bool {
	g, n := 0, 0
	star, resume := -1, 0 // the name after the last **, and where in p it is tried
	for n < len(p) {
		switch {
		case g == len(glob) && below:
			return true
		case g < len(glob) && glob[g] == "**":
			g++
			if g == len(glob) {
				return true
			}
			star, resume = g, n
		case g < len(glob) && matchName(glob[g], p[n]):
			g, n = g+1, n+1
		case star < 0:
			return false
		default:
			resume++
			g, n = star, resume
		}
	}
	return g == len(glob)
}

func matchName(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}
