package checks

import (
	"bytes"
	"encoding/json"

	"github.com/google/go-github/v60/github"
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

// panics reads how a test of Rust's fails: `thread 'tests::adds' (2284) panicked at src/lib.rs:10:9:`, with the message below it.
type panics struct {
	p    *parser
	open *github.CheckRunAnnotation
}

func (r *panics) line(line []byte) bool {
	if rest, ok := bytes.CutPrefix(line, []byte("thread '")); ok {
		r.open = nil
		name, at, ok := bytes.Cut(rest, []byte("' "))
		_, at, panicked := bytes.Cut(at, []byte("panicked at "))
		if file, row, col := r.p.position(bytes.TrimSuffix(at, []byte(":"))); ok && panicked && file != "" {
			r.open = r.p.add(file, row, col, "failure", string(name), "panicked")
		}
		return ok && panicked
	}
	if r.open == nil {
		return false
	}
	if bytes.HasPrefix(line, []byte("stack backtrace:")) || bytes.HasPrefix(line, []byte("note: ")) || bytes.HasPrefix(line, []byte("---- ")) {
		r.open = nil
		return false
	}
	extend(r.open, line)
	return true
}

// rustMessage is a diagnostic of rustc's, which cargo wraps.
type rustMessage struct {
	Message, Level string
	Code           *struct{ Code string }
	Spans          []struct {
		File    string `json:"file_name"`
		Line    int    `json:"line_start"`
		Column  int    `json:"column_start"`
		Primary bool   `json:"is_primary"`
	}
}

// rustJSON reads `rustc --error-format json` and `cargo --message-format json`: one message a line, by the sign that it has.
func (p *parser) rustJSON(log []byte, sign string, decode func([]byte) (rustMessage, error)) {
	for offset := 0; offset < len(log); {
		line := log[offset:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		p.offset = offset
		offset += len(line) + 1
		if !bytes.Contains(line, []byte(sign)) {
			continue
		}
		m, err := decode(bytes.TrimPrefix(line, []byte(bom)))
		if err != nil {
			continue
		}
		title := ""
		if m.Code != nil {
			title = m.Code.Code
		}
		for _, s := range m.Spans {
			if file := p.resolve([]byte(s.File)); s.Primary && file != "" {
				p.add(file, s.Line, s.Column, level([]byte(m.Level)), title, m.Message)
			}
		}
	}
}

const (
	cargoSign = `"reason":"compiler-message"`
	rustcSign = `"$message_type":"diagnostic"`
)

func (p *parser) cargoJSON(log []byte) {
	p.rustJSON(log, cargoSign, func(line []byte) (rustMessage, error) {
		var wrapped struct{ Message rustMessage }
		err := json.Unmarshal(line, &wrapped)
		return wrapped.Message, err
	})
}

func (p *parser) rustcJSON(log []byte) {
	p.rustJSON(log, rustcSign, func(line []byte) (m rustMessage, err error) {
		if bytes.Contains(line, []byte(cargoSign)) {
			return m, nil
		}
		err = json.Unmarshal(line, &m)
		return m, err
	})
}
