package gates

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Secret is something that looks like a credential. It does not hold the value.
type Secret struct {
	Rule string // by which it was found
	Line int    // in the text, from 1
}

// line is a line of a new file whose text the old one does not have.
type line struct {
	number int
	text   string
}

// added are the lines of a change that are new in the file. A line that only moved is not among them.
func (in Input) added(c sandbox.Change) []line {
	text, ok := in.Content[c.NewID]
	if !ok || c.Kind == sandbox.Deleted || c.NewMode == "160000" || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	old := map[string]int{}
	for l := range strings.Lines(string(in.Content[c.OldID])) {
		old[strings.TrimRight(l, "\r\n")]++
	}
	var lines []line
	n := 0
	for l := range strings.Lines(string(text)) {
		n++
		if l = strings.TrimRight(l, "\r\n"); old[l] > 0 {
			old[l]--
			continue
		}
		lines = append(lines, line{n, l})
	}
	return lines
}

// secrets looks at the added lines only: what the repository holds already is not this change's to answer for. The lines
// stand where they stand in the file, so that a key over several lines is seen as one.
func secrets(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		var b strings.Builder
		at := 1
		for _, l := range in.added(c) {
			for ; at < l.number; at++ {
				b.WriteByte('\n')
			}
			b.WriteString(l.text)
		}
		for _, s := range in.Secrets(c.Path, b.String()) {
			found = append(found, Evidence{Path: c.Path, Line: s.Line, Text: "looks like a credential (" + s.Rule + "); its value is not repeated here"})
		}
	}
	return found
}

// hidden finds letters that a reader does not see or that change the order in which text is shown
// (https://trojansource.codes), in added lines and in the names of files.
func hidden(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		if what := unseen(c.Path); what != "" && c.Kind != sandbox.Deleted {
			found = append(found, Evidence{Path: c.Path, Text: "its name holds " + what})
		}
		for _, l := range in.added(c) {
			if what := unseen(l.text); what != "" {
				found = append(found, Evidence{Path: c.Path, Line: l.number, Text: "holds " + what})
			}
		}
	}
	return found
}

// unresolved finds conflicts that were left in a file: an agent may end in the middle of a merge or a rebase, and its checks may not
// mind. One of the marks alone is no conflict.
func unresolved(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		begun := 0
		for _, l := range in.added(c) {
			switch {
			case strings.HasPrefix(l.text, "<<<<<<< "):
				begun = l.number
			case begun > 0 && strings.HasPrefix(l.text, ">>>>>>> "):
				found = append(found, Evidence{Path: c.Path, Line: begun, Text: "a conflict of two sides begins here, unresolved"})
				begun = 0
			}
		}
	}
	return found
}

// unseen names the first letter without a shape. Joiners between letters that are no ASCII make scripts and emoji, a byte
// order mark begins files, and U+FE0F belongs to emoji.
func unseen(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || r < ' ' && r != '\t' }) {
		return ""
	}
	before := rune(0)
	for i, r := range s {
		switch {
		case r == utf8.RuneError, r == '\t', r == '\u00ad' && before > unicode.MaxASCII, r == '\ufe0f':
		case r == '\ufeff' && i == 0, (r == '\u200c' || r == '\u200d') && before > unicode.MaxASCII:
		case r < ' ' || r == 0x7f:
			if r == '\f' || r == 0x1b { // pages in old sources; escapes are common in tests of terminals
				break
			}
			return fmt.Sprintf("the control character %U", r)
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Cc, r), r >= 0xe0000 && r <= 0xe0fff, r >= 0xfe00 && r <= 0xfe0e,
			r == '\u034f', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0', r == '\u17b4', r == '\u17b5', r == '\u2028', r == '\u2029':
			return fmt.Sprintf("the invisible character %U", r)
		}
		before = r
	}
	return ""
}
