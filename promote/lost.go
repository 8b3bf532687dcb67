package promote

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Lost is a line that came to the base branch after the run had started, and that the change takes away again: what an
// agent does that edits an old copy of a file (kamp-us/phoenix#3621, flowglad/onton#143).
type Lost struct {
	Path string `json:"path"` // in the parent of the staged commit
	Line int    `json:"line"` // there, from 1
	Text string `json:"text"`
}

const (
	lostMost  = 100     // named at most
	lostBytes = 1 << 20 // of one file that is looked at; longer ones are data
)

// lost holds the staged commit against its parent. A merge loses nothing by itself, so this watches over whatever made the
// commit: lines are counted in all files that both sides touched, in the run's base, in the parent, in what was selected and
// in what was staged. A line that moved to another of these files is not lost.
func (r Stored) lost(ctx context.Context, s Staged, selected string) ([]Lost, error) {
	ids, err := r.touched(ctx, s)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	at := map[string]map[string]string{} // commit -> path -> blob
	var want []string
	for _, commit := range []string{s.MergeBase, s.Base, selected, s.Commit} {
		if at[commit], err = r.blobIDs(ctx, commit, ids); err != nil {
			return nil, err
		}
		want = slices.AppendSeq(want, maps.Values(at[commit]))
	}
	text, err := r.Blobs(ctx, want, lostBytes)
	if err != nil {
		return nil, err
	}
	count := func(commit string) map[string]int {
		n := map[string]int{}
		for _, id := range at[commit] {
			for _, line := range telling(text[id]) {
				n[line]++
			}
		}
		return n
	}
	old, newer, ours, now := count(s.MergeBase), count(s.Base), count(selected), count(s.Commit)
	var found []Lost
	for _, path := range slices.Sorted(maps.Keys(at[s.Base])) {
		for i, raw := range bytes.Split(text[at[s.Base][path]], []byte("\n")) {
			line := strings.TrimSpace(string(raw))
			came, went := newer[line]-old[line], newer[line]-now[line]-max(0, old[line]-ours[line])
			if came <= 0 || went <= 0 {
				continue
			}
			now[line]++ // named once for each that is lost
			if found = append(found, Lost{Path: path, Line: i + 1, Text: line}); len(found) == lostMost {
				return found, nil
			}
		}
	}
	return found, nil
}

// touched are the paths of files that the change touches, if the base branch has touched any of them too.
func (r Stored) touched(ctx context.Context, s Staged) ([]string, error) {
	theirs, err := r.changed(ctx, s.MergeBase, s.Base)
	if err != nil {
		return nil, err
	}
	both := false
	var paths []string
	for _, c := range s.Changes {
		for _, p := range []string{c.Path, c.From} {
			if p != "" {
				paths = append(paths, p)
				both = both || theirs[p]
			}
		}
	}
	if !both {
		return nil, nil
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// telling are the lines that say something, without the space around them: a brace is in every file.
func telling(text []byte) []string {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// byPath sorts changes for people and for digests.
func byPath(list []sandbox.Change) []sandbox.Change {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b sandbox.Change) int { return cmp.Compare(a.Path, b.Path) })
	return list
}
