package sandbox

import (
	"fmt"
	"path"
	"strings"
)

// Check says whether the globs are well formed.
func (s Selection) Check() error {
	for _, g := range append(append([]string{}, s.Only...), s.Drop...) {
		for part := range strings.SplitSeq(g, "/") {
			if _, err := path.Match(part, ""); err != nil {
				return fmt.Errorf("glob %q: %w", g, err)
			}
		}
	}
	return nil
}

// Takes says whether a path is selected: it matches one of Only (or there is none), and none of Drop.
func (s Selection) Takes(p string) bool {
	if len(s.Only) > 0 && !matchesAny(s.Only, p) {
		return false
	}
	return !matchesAny(s.Drop, p)
}

func matchesAny(globs []string, p string) bool {
	for _, g := range globs {
		if MatchGlob(g, p) {
			return true
		}
	}
	return false
}

// MatchGlob says whether a glob matches a path: as path.Match does, part by part, with ** for any number of parts. A glob
// that names a directory, or ends with a slash, takes all that is below it.
func MatchGlob(glob, p string) bool {
	glob = strings.TrimPrefix(glob, "./")
	parts := strings.Split(strings.TrimSuffix(glob, "/"), "/")
	return matchParts(parts, strings.Split(p, "/"))
}

func matchParts(glob, p []string) bool {
	for len(glob) > 0 {
		if glob[0] == "**" {
			for i := range len(p) + 1 {
				if matchParts(glob[1:], p[i:]) {
					return len(p) > 0
				}
			}
			return false
		}
		if len(p) == 0 {
			return false
		}
		if ok, err := path.Match(glob[0], p[0]); err != nil || !ok {
			return false
		}
		glob, p = glob[1:], p[1:]
	}
	return true // what is left of p lies below what was named
}
