package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// jsonFinding is what ruff (--output-format json), pylint and shellcheck (-f json) write of a finding, each in words of its own.
type jsonFinding struct {
	Filename, Path, File string
	Line, Column         int
	Location             struct{ Row, Column int }
	Code                 any // a number of shellcheck's
	Symbol, Message      string
	Type, Level          string
}

// What stands in each finding of one tool, and in no other's.
const (
	ruffSign       = `"noqa_row":`
	pylintSign     = `"message-id":`
	shellcheckSign = `"endLine":`
)

// jsonList gives a reader of the list of findings in which a sign stands.
func jsonList(sign string) func(*parser, []byte) {
	return func(p *parser, log []byte) {
		before := log[:bytes.Index(log, []byte(sign))]
		start := 0
		for _, begin := range []string{"\n[", bom + "["} {
			if at := bytes.LastIndex(before, []byte(begin)); at >= 0 {
				start = max(start, at+len(begin)-1)
			}
		}
		var list []jsonFinding
		if json.NewDecoder(bytes.NewReader(log[start:])).Decode(&list) != nil {
			return
		}
		for _, f := range list {
			file := p.resolve([]byte(orElse(f.Filename, orElse(f.Path, f.File))))
			if file == "" {
				continue
			}
			title := f.Symbol
			if title == "" && f.Code != nil { // null of a syntax error's
				title = fmt.Sprint(f.Code)
			}
			p.add(file, max(f.Line, f.Location.Row), max(f.Column, f.Location.Column), jsonLevel(f), title, f.Message)
		}
	}
}

func jsonLevel(f jsonFinding) string {
	switch orElse(f.Type, f.Level) {
	case "warning":
		return "warning"
	case "convention", "refactor", "info", "style":
		return "notice"
	}
	return "failure"
}
