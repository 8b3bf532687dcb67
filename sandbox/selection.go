package sandbox

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ErrSelection says that a part of a file was selected that is not there.
type ErrSelection struct {
	Entry  string // of the selection
	Reason string // for people
}

func (e *ErrSelection) Error() string { return fmt.Sprintf("selection %q: %s", e.Entry, e.Reason) }

// Check says whether the entries are well formed, and few and short enough.
func (s Selection) Check() error {
	entries := s.entries()
	if len(entries) > mostGlobs {
		return fmt.Errorf("selection has %d entries, and may have %d: name directories, or use ** in a pattern", len(entries), mostGlobs)
	}
	for _, entry := range entries {
		if IsPart(entry) {
			continue
		}
		if err := CheckGlob(entry); err != nil {
			return fmt.Errorf("pattern %.60q: %w", entry, err)
		}
	}
	return nil
}

// Takes says whether anything of a path is selected: it matches one of Only (or there is none), and none of Drop.
func (s Selection) Takes(p string) bool {
	if len(s.Only) > 0 && !matchesAny(s.Only, p) && len(partsOf(s.Only, p)) == 0 {
		return false
	}
	return !matchesAny(s.Drop, p)
}

func (s Selection) entries() []string { return append(append([]string{}, s.Only...), s.Drop...) }

// parts are the entries that name pieces of files.
func (s Selection) parts() (all []part) {
	for _, entry := range s.entries() {
		if p, ok := parsePart(entry); ok {
			all = append(all, p)
		}
	}
	return all
}

// takesPiece says whether a piece of a path that is taken is selected: a hunk by its number, or the mode.
func (s Selection) takesPiece(p string, n int) bool {
	if len(s.Only) > 0 && !matchesAny(s.Only, p) && !holds(partsOf(s.Only, p), n) {
		return false
	}
	return !holds(partsOf(s.Drop, p), n)
}

// part is an entry that names pieces of one file: "sum.go:2", "sum.go:1,4-6", "tool:mode".
type part struct {
	entry, path string
	pieces      [][2]int // from, to; hunks count from 1
}

// modePiece stands for the change of a file's mode among the numbers of its hunks.
const modePiece = 0

const pieceForm = `(?:mode|[1-9][0-9]{0,5}(?:-[1-9][0-9]{0,5})?)`

var partForm = regexp.MustCompile(`^(.+):(` + pieceForm + `(?:,` + pieceForm + `)*)$`)

// parsePart reads an entry. A file whose own name ends in such a way is meant by "name[:]2".
func parsePart(entry string) (part, bool) {
	if !strings.Contains(entry, ":") { // nearly all of them, and each is asked for each path
		return part{}, false
	}
	m := partForm.FindStringSubmatch(entry)
	if m == nil {
		return part{}, false
	}
	p := part{entry: entry, path: strings.TrimPrefix(m[1], "./")}
	for piece := range strings.SplitSeq(m[2], ",") {
		if piece == "mode" {
			p.pieces = append(p.pieces, [2]int{modePiece, modePiece})
			continue
		}
		first, last, _ := strings.Cut(piece, "-")
		from, _ := strconv.Atoi(first) // digits, as matched
		to, err := strconv.Atoi(last)
		if err != nil { // one number
			to = from
		}
		p.pieces = append(p.pieces, [2]int{from, to})
	}
	return p, true
}

// IsPart says whether an entry of a selection names pieces of a file instead of paths.
func IsPart(entry string) bool {
	_, ok := parsePart(entry)
	return ok
}

func partsOf(entries []string, name string) (of []part) {
	for _, entry := range entries {
		if p, ok := parsePart(entry); ok && p.path == name {
			of = append(of, p)
		}
	}
	return of
}

func holds(parts []part, n int) bool {
	for _, p := range parts {
		for _, piece := range p.pieces {
			if piece[0] <= n && n <= piece[1] {
				return true
			}
		}
	}
	return false
}

func matchesAny(globs []string, p string) bool {
	for _, g := range globs {
		if _, isPart := parsePart(g); !isPart && MatchGlob(g, p) {
			return true
		}
	}
	return false
}
