package checks

import (
	"bytes"
	"strings"
)

// tap reads the Test Anything Protocol, version 13 and up: `not ok 1 - name`, with what is known of the failure in the YAML block
// behind it (location or at, or file and line; message or error).
type tap struct {
	p         *parser
	name      string
	values    map[string]string
	inBlock   bool
	continues string // the key whose text stands on the next line
}

func (t *tap) line(line []byte) bool {
	rest := bytes.TrimLeft(line, " ")
	if len(rest) == 0 {
		return false
	}
	if after, ok := bytes.CutPrefix(rest, []byte("not ok ")); ok {
		_, name, found := bytes.Cut(after, []byte(" - "))
		if !found {
			name = after
		}
		t.name, t.values, t.inBlock = string(name), map[string]string{}, false
		return true
	}
	if t.values == nil {
		return false
	}
	switch {
	case !t.inBlock && bytes.Equal(rest, []byte("---")):
		t.inBlock = true
		return true
	case !t.inBlock:
		t.values = nil
		return false
	case bytes.Equal(rest, []byte("...")):
		t.flush()
		return true
	}
	if t.continues != "" {
		t.values[t.continues], t.continues = string(rest), ""
		return true
	}
	key, value, ok := strings.Cut(string(rest), ":")
	if value = strings.TrimSpace(value); ok && len(t.values) < 50 && t.values[key] == "" {
		if value == "|-" || value == "|" || value == ">" {
			t.continues = key
			return true
		}
		t.values[key] = strings.Trim(value, `'"`)
	}
	return true
}

func (t *tap) flush() {
	v := t.values
	t.values, t.inBlock, t.continues = nil, false, ""
	place := orElse(v["location"], v["at"])
	if place == "" && v["file"] != "" {
		place = v["file"] + ":" + v["line"]
	}
	if at := strings.LastIndexByte(place, '('); at >= 0 {
		place = strings.TrimSuffix(place[at+1:], ")")
	}
	if file, row, col := t.p.position([]byte(place)); file != "" {
		t.p.add(file, row, col, "failure", t.name, orElse(v["error"], orElse(v["message"], "not ok")))
	}
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
