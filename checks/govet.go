package checks

import (
	"bytes"
	"encoding/json"
)

// vetJSON reads `go vet -json`, which prints an object for each package, indented, with a finding's place and message on lines of their own.
type vetJSON struct {
	p  *parser
	at []byte // path:line:col
}

func (v *vetJSON) line(line []byte) bool {
	rest := bytes.TrimLeft(line, "\t ")
	if at, ok := bytes.CutPrefix(rest, []byte(`"posn": "`)); ok {
		v.at = bytes.TrimRight(at, `",`)
		return true
	}
	said, ok := bytes.CutPrefix(rest, []byte(`"message": `))
	if !ok || v.at == nil {
		return false
	}
	var message string
	if file, row, col := v.p.position(v.at); file != "" && json.Unmarshal(bytes.TrimRight(said, ","), &message) == nil {
		v.p.add(file, row, col, "failure", "", message)
	}
	v.at = nil
	return true
}
