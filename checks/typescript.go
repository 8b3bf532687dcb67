package checks

import "bytes"

// typescript reads what tsc prints: `src/a.ts(3,5): error TS2322: …`, and `src/a.ts:3:5 - error TS2322: …` with --pretty.
type typescript struct{ p *parser }

func (t *typescript) line(line []byte) bool {
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
				t.p.open = t.p.add(file, row, col, level, string(code), string(message))
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
