package checks

import (
	"bytes"
	"strings"

	"github.com/google/go-github/v60/github"
)

// tap reads the Test Anything Protocol: `not ok 1 - name`, with what is known of the failure in the YAML block behind it, from version
// 13 on (location or at, or file and line; message or error), or in comments, as Perl's Test::More and bats write it.
type tap struct {
	p         *parser
	name      string
	values    map[string]string
	inBlock   bool
	continues string                     // the key whose text stands on the next line
	open      *github.CheckRunAnnotation // takes the comments that follow it
}

func (t *tap) line(line []byte) bool {
	rest := bytes.TrimLeft(line, " ")
	if len(rest) == 0 {
		return false
	}
	if after, ok := bytes.CutPrefix(rest, []byte("not ok ")); ok {
		_, end := number(after, 0)
		name := bytes.TrimPrefix(bytes.TrimLeft(after[end:], " "), []byte("- "))
		t.name, t.values, t.inBlock, t.open = string(name), map[string]string{}, false, nil
		return true
	}
	if rest[0] == '#' && !t.inBlock {
		return t.comment(rest[1:])
	}
	t.open = nil
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
		t.values[key] = scalar(value)
	}
	return true
}

func (t *tap) flush() {
	v := t.values
	t.values, t.inBlock, t.continues = nil, false, ""
	place := orElse(v["location"], v["at"])
	if place == "" && v["line"] != "" {
		place = orElse(v["file"], t.name) + ":" + v["line"] // a linter's test is the file
	}
	if at := strings.LastIndexByte(place, '('); at >= 0 {
		place = strings.TrimSuffix(place[at+1:], ")")
	}
	if file, row, col := t.p.position([]byte(place)); file != "" {
		t.p.add(file, row, col, "failure", t.name, orElse(v["error"], orElse(v["message"], "not ok")))
	}
}

// scalar takes the quotes off a value of YAML.
func scalar(value string) string {
	if len(value) > 1 && value[0] == '\'' && strings.HasSuffix(value, "'") {
		return strings.ReplaceAll(value[1:len(value)-1], "''", "'")
	}
	return strings.Trim(value, `"`)
}

// comment reads `#   Failed test 'adds'`, `#   at t/sum.t line 3.` and `# (in test file a.bats, line 3)`, and what follows them.
func (t *tap) comment(text []byte) bool {
	if bytes.HasPrefix(text, []byte("   Failed test")) {
		_, name, _ := bytes.Cut(text, []byte("'"))
		t.name, t.open = orElse(string(bytes.TrimSuffix(name, []byte("'"))), t.name), nil
	}
	if at := bytes.LastIndex(text, []byte("line ")); at > 0 {
		row, end := number(text, at+5)
		before := bytes.TrimRight(text[:at], ", ")
		if row > 0 && end < len(text) && (text[end] == '.' || text[end] == ')') {
			if file := t.p.resolve(before[bytes.LastIndexByte(before, ' ')+1:]); file != "" {
				t.open = t.p.add(file, row, 0, "failure", t.name, orElse(t.name, "not ok"))
				t.name = "" // the next one may have none
				return true
			}
		}
	}
	if t.open != nil && bytes.HasPrefix(text, []byte("   ")) {
		extend(t.open, bytes.TrimSpace(text))
	}
	return t.open != nil
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
