package checks

import "bytes"

// maven reads `[ERROR] /workspace/src/main/java/A.java:[3,5] message`. javac's own form is file:line: message.
type maven struct{ p *parser }

func (m *maven) line(line []byte) bool {
	if line[0] != '[' {
		return false
	}
	level := ""
	var rest []byte
	for _, l := range []struct{ mark, level string }{{"[ERROR] ", "failure"}, {"[WARNING] ", "warning"}} {
		if after, ok := bytes.CutPrefix(line, []byte(l.mark)); ok {
			level, rest = l.level, after
		}
	}
	at := bytes.Index(rest, []byte(":["))
	if level == "" || at < 1 {
		return false
	}
	row, end := number(rest, at+2)
	col := 0
	if row > 0 && end < len(rest) && rest[end] == ',' {
		col, end = number(rest, end+1)
	}
	if row == 0 || end >= len(rest) || rest[end] != ']' {
		return false
	}
	file := m.p.resolve(rest[:at])
	if file == "" {
		return false
	}
	m.p.add(file, row, col, level, "", string(bytes.TrimSpace(rest[end+1:])))
	return true
}
