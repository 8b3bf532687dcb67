package checks

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// javascript reads how tests fail under jest, vitest, mocha and node's runner, and what node prints of an exception that nobody caught:
// the name of a test, an error or what was expected, then a stack. Its first frame in the tree is where it went wrong.
type javascript struct {
	p      *parser
	test   string
	named  bool     // lines are of the test's name still, as mocha breaks it
	reason []string // what was said of the failure; none: there is none that waits for its frame
	open   bool     // more of the reason follows
	jest   bool     // all that follows the name is of the reason
}

func (j *javascript) line(line []byte) bool {
	rest := bytes.TrimLeft(line, " ")
	if len(rest) == 0 {
		return false
	}
	switch c := rest[0]; {
	case c == 0xe2 && j.marked(rest):
		return true
	case c == 'F' && bytes.HasPrefix(line, []byte(" FAIL  ")): // vitest's; jest names the file alone
		_, name, _ := bytes.Cut(rest, []byte(" > "))
		j.begin(name)
		return true
	case c >= '1' && c <= '9' && line[0] == ' ' && mochaNumber(rest):
		_, name, _ := bytes.Cut(rest, []byte(") "))
		j.begin(name)
		j.named = true
		return false // a number before a word is in many logs
	case c == 'a' && bytes.HasPrefix(rest, []byte("at ")):
		return j.frame(rest[3:])
	case j.named:
		j.named = rest[len(rest)-1] != ':'
		j.test += " " + strings.TrimSuffix(string(rest), ":")
	case !j.jest && errorLine(rest):
		j.reason, j.open = []string{string(rest)}, true
	case j.open:
		j.more(rest)
	}
	return false
}

// more takes a line of the reason, which ends where code is shown. An error with much behind it and no frame is a log's own.
func (j *javascript) more(line []byte) {
	if code := bytes.TrimLeft(line, "> 0123456789"); len(code) > 0 && code[0] == '|' {
		j.open = false
		return
	}
	if len(j.reason) < reasonMost {
		j.reason = append(j.reason, string(line))
	} else if !j.jest {
		j.reason, j.open = nil, false
	}
}

func (j *javascript) begin(name []byte) {
	*j = javascript{p: j.p, test: string(bytes.TrimSpace(name))}
}

// marked reads lines that begin with a mark: jest's names, node's, and vitest's frames.
func (j *javascript) marked(line []byte) bool {
	mark, rest, _ := bytes.Cut(line, []byte(" "))
	switch string(mark) {
	case "●":
		j.begin(rest)
		j.jest = !bytes.HasPrefix(rest, []byte("Console"))
		j.open = j.jest
	case "✖":
		if at := bytes.LastIndex(rest, []byte(" (")); at > 0 {
			rest = rest[:at] // (1.2ms)
		}
		j.begin(rest)
	case "❯":
		return j.frame(rest)
	default:
		return false
	}
	return true
}

// scripts are the endings of what these tools run.
var scripts = []string{".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte"}

// frame reads `sum (src/sum.js:2:29)`, `file:///workspace/src/main.js:2:1` and vitest's `sum src/sum.js:2:29`.
func (j *javascript) frame(at []byte) bool {
	if j.reason == nil {
		return false
	}
	at = bytes.TrimSuffix(bytes.TrimSuffix(at, []byte(" {")), []byte(")")) // node prints the error's properties behind its last frame
	at = at[bytes.LastIndexAny(at, " (")+1:]
	if bytes.Contains(at, []byte("node_modules/")) {
		return true
	}
	file, row, col := j.p.position(at)
	if file == "" || !slices.Contains(scripts, path.Ext(file)) { // Rust's frames look the same
		return false
	}
	j.p.add(file, row, col, "failure", j.test, strings.Join(j.reason, "\n"))
	j.reason, j.open, j.jest = nil, false, false
	return true
}

// errorLine says whether a line begins with the name of an error: `TypeError: nothing to add`, `AssertionError [ERR_ASSERTION]: …`.
func errorLine(line []byte) bool {
	if bytes.HasPrefix(line, []byte("Uncaught ")) { // mocha's
		line = line[9:]
	}
	end := 0
	for end < len(line) && (line[end] >= 'a' && line[end] <= 'z' || line[end] >= 'A' && line[end] <= 'Z') {
		end++
	}
	if end < 5 || line[0] > 'Z' || !bytes.HasSuffix(line[:end], []byte("Error")) {
		return false
	}
	rest := line[end:]
	return bytes.HasPrefix(rest, []byte(": ")) || bytes.HasPrefix(rest, []byte(" [")) && bytes.Contains(rest, []byte("]: "))
}

func mochaNumber(rest []byte) bool {
	_, end := number(rest, 0)
	return bytes.HasPrefix(rest[end:], []byte(") "))
}
