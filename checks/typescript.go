package checks

import (
	"bytes"

	"github.com/google/go-github/v60/github"
)

// typescript reads what tsc prints: `src/a.ts(3,5): error TS2322: …`, and `src/a.ts:3:5 - error TS2322: …` with --pretty.
type typescript struct {
	p    *parser
	last *github.CheckRunAnnotation // takes what --pretty says of other places
}

func (t *typescript) line(line []byte) bool {
	if line[0] == ' ' {
		return t.related(line)
	}
	at := bytes.Index(line, []byte(" TS"))
	if at < 6 || at+4 > len(line) || line[at+3] < '0' || line[at+3] > '9' {
		return false
	}
	for _, word := range []string{"error", "warning", "message"} {
		before, ok := bytes.CutSuffix(line[:at], []byte(word))
		if !ok {
			continue
		}
		level := map[string]string{"error": "failure", "warning": "warning", "message": "notice"}[word]
		code, message, _ := bytes.Cut(line[at+1:], []byte(": "))
		if place, ok := bytes.CutSuffix(before, []byte(" - ")); ok {
			if file, row, col := t.p.position(place); file != "" {
				t.last = t.p.add(file, row, col, level, string(code), string(message))
				return true
			}
		}
		place, ok := bytes.CutSuffix(before, []byte("): "))
		open := bytes.LastIndexByte(place, '(')
		if !ok || open < 1 {
			return false
		}
		row, end := number(place, open+1)
		if row == 0 || end >= len(place) || place[end] != ',' {
			return false
		}
		col, _ := number(place, end+1)
		if file := t.p.resolve(place[:open]); file != "" {
			t.p.add(file, row, col, level, string(code), string(message))
			return true
		}
	}
	return false
}

// related reads `  src/a.ts:2:17 - The expected type comes from …`: why, of the finding before it.
func (t *typescript) related(line []byte) bool {
	place, why, ok := bytes.Cut(line, []byte(" - "))
	if !ok || t.last == nil {
		return false
	}
	if file, _, _ := t.p.position(place); file == "" {
		return false
	}
	extend(t.last, bytes.TrimSpace(place))
	extend(t.last, why)
	return true
}
