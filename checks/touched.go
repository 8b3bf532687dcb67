package checks

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Touched are the lines that a change has written, by the path of their file as it is now. What is said of them comes first: GitHub shows
// an annotation beside a line in the pull request's diff only there, and a change is held to what it did.
type Touched map[string][]Lines

// Lines are the lines from one to another, both included, counted from 1. A file whose lines were only taken out has none.
type Lines struct{ From, To int }

// ReadDiff reads what a diff of git's without context (-U0) says of the new lines. It counts the lines of each hunk, since a line that a
// change adds may look like the head of another file.
func ReadDiff(diff []byte) Touched {
	touched := Touched{}
	file, left := "", 0
	for line := range bytes.Lines(diff) {
		switch {
		case left > 0:
			if line[0] != '\\' { // "\ No newline at end of file"
				left--
			}
		case bytes.HasPrefix(line, []byte("+++ ")):
			file = diffPath(strings.TrimRight(string(line[len("+++ "):]), "\r\n"))
			if file != "" {
				touched[file] = nil
			}
		case bytes.HasPrefix(line, []byte("@@ -")):
			_, was := hunkRange(line, " -")
			from, is := hunkRange(line, " +")
			if left = was + is; file != "" && is > 0 {
				touched[file] = append(touched[file], Lines{from, from + is - 1})
			}
		}
	}
	return touched
}

// diffPath takes the prefix and the quotes off a path; "" of a file that is gone. git quotes as C does, and a tab ends a name with spaces.
func diffPath(name string) string {
	if strings.HasPrefix(name, `"`) {
		plain, err := strconv.Unquote(name)
		if err != nil {
			return ""
		}
		name = plain
	} else {
		name = strings.TrimSuffix(name, "\t")
	}
	name, _ = strings.CutPrefix(name, "b/")
	if name == "/dev/null" {
		return ""
	}
	return name
}

// hunkRange reads the range after a sign in `@@ -12,3 +12 @@`; a length that is left out is 1.
func hunkRange(line []byte, sign string) (from, count int) {
	_, rest, _ := bytes.Cut(line, []byte(sign))
	count = 1
	fmt.Sscanf(string(rest[:min(len(rest), 24)]), "%d,%d", &from, &count)
	return from, count
}

// rank is how near a line is to the change: 0 it is of it, 1 its file is, 2 neither.
func (t Touched) rank(file string, line int) int {
	lines, ok := t[file]
	if !ok {
		return 2
	}
	for _, l := range lines {
		if l.From <= line && line <= l.To {
			return 0
		}
	}
	return 1
}
