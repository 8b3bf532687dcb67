package checks

import (
	"bytes"
	"encoding/json"
)

// arrows reads what rustc, and ruff after it, print: a message, then ` --> src/main.rs:2:5`.
type arrows struct {
	p    *parser
	last []byte // the last line that is not indented
}

func (a *arrows) line(line []byte) bool {
	if line[0] != ' ' {
		if line[0] != '|' && (line[0] < '0' || line[0] > '9') {
			a.last = line
		}
		return false
	}
	place, ok := bytes.CutPrefix(bytes.TrimLeft(line, " "), []byte("--> "))
	if !ok || len(a.last) == 0 {
		return false
	}
	if file, row, col := a.p.position(place); file != "" {
		a.p.add(file, row, col, level(a.last), "", string(a.last))
		a.last = nil
		return true
	}
	return false
}

// cargoJSON reads `cargo --message-format json`: one message a line.
func (p *parser) cargoJSON(log []byte) {
	sign := []byte(`"reason":"compiler-message"`)
	for offset := 0; offset < len(log); {
		line := log[offset:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		p.offset = offset
		offset += len(line) + 1
		if !bytes.Contains(line, sign) {
			continue
		}
		var m struct {
			Message struct {
				Message, Level string
				Code           *struct{ Code string }
				Spans          []struct {
					File    string `json:"file_name"`
					Line    int    `json:"line_start"`
					Column  int    `json:"column_start"`
					Primary bool   `json:"is_primary"`
				}
			}
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		title := ""
		if m.Message.Code != nil {
			title = m.Message.Code.Code
		}
		for _, s := range m.Message.Spans {
			if file := p.resolve([]byte(s.File)); s.Primary && file != "" {
				p.add(file, s.Line, s.Column, level([]byte(m.Message.Level)), title, m.Message.Message)
			}
		}
	}
}
