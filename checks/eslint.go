package checks

import (
	"bytes"
	"encoding/json"
)

// eslint reads the stylish form: a line with a file, then `  3:5  error  message  rule` for each finding in it.
type eslint struct {
	p    *parser
	last []byte // the last line that is not indented
}

func (e *eslint) line(line []byte) bool {
	if line[0] != ' ' {
		e.last = line
		return false
	}
	rest := bytes.TrimLeft(line, " ")
	if len(rest) == 0 || rest[0] < '0' || rest[0] > '9' || len(e.last) == 0 {
		return false
	}
	row, end := number(rest, 0)
	if end >= len(rest) || rest[end] != ':' { // 0:0 is of the whole file
		return false
	}
	col, end := number(rest, end+1)
	rest = bytes.TrimLeft(rest[end:], " ")
	for _, l := range []struct{ word, level string }{{"error ", "failure"}, {"warning ", "warning"}} {
		message, ok := bytes.CutPrefix(rest, []byte(l.word))
		if !ok {
			continue
		}
		file := e.p.resolve(e.last)
		if file == "" {
			return false
		}
		message, rule := bytes.TrimSpace(message), []byte(nil)
		if at := bytes.LastIndex(message, []byte("  ")); at > 0 {
			message, rule = bytes.TrimSpace(message[:at]), message[at+2:]
		}
		e.p.add(file, row, col, l.level, string(rule), string(message))
		return true
	}
	return false
}

// eslintJSON reads `eslint --format json`.
func (p *parser) eslintJSON(log []byte) {
	start := bytes.Index(log, []byte(`[{"filePath"`))
	if start < 0 {
		return
	}
	var files []struct {
		FilePath string `json:"filePath"`
		Messages []struct {
			RuleID       string `json:"ruleId"`
			Severity     int
			Message      string
			Line, Column int
		}
	}
	if json.NewDecoder(bytes.NewReader(log[start:])).Decode(&files) != nil {
		return
	}
	for _, f := range files {
		file := p.resolve([]byte(f.FilePath))
		for _, m := range f.Messages {
			level := "warning"
			if m.Severity == 2 {
				level = "failure"
			}
			if file != "" {
				p.add(file, m.Line, m.Column, level, m.RuleID, m.Message)
			}
		}
	}
}
