package mission

import (
	"path/filepath"
	"slices"
	"strings"
)

// withoutPlace takes the path of the state directory out of what is posted as well: it says where this machine keeps things, in the
// text of any error that names a file, and helps nobody who reads an issue.
func withoutPlace(redact func(string) string, dir string) func(string) string {
	var pairs []string
	for _, known := range namesOf(dir) {
		pairs = append(pairs, known+"/", "", known, "the state directory")
	}
	replace := strings.NewReplacer(pairs...)
	return func(text string) string { return replace.Replace(redact(text)) }
}

// namesOf are the names that a directory goes by in errors; none that is the root, or no name of its own.
func namesOf(dir string) (names []string) {
	abs, err := filepath.Abs(dir)
	if dir == "" || err != nil {
		return nil
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		real = abs
	}
	for _, name := range []string{abs, real} {
		if name != "/" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
