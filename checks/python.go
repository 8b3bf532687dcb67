package checks

import (
	"bytes"
	"strings"
)

// python reads pytest's failures, whose reasons stand on lines that begin with E before the line that names the file, and the
// tracebacks of unittest and of the interpreter, whose last frame in the tree is where it went wrong.
type python struct {
	p       *parser
	test    string
	reason  []string
	file    string // the last frame of a traceback in the tree
	row     int
	inStack bool
	at      held            // the last `a.py:12: in name` of pytest's short form, which stands before its reasons
	summed  map[string]bool // files of which the summary alone tells
}

const reasonMost = 20 // lines

func (y *python) line(line []byte) bool {
	switch {
	case line[0] == 'E' && len(line) > 3 && line[1] == ' ':
		if len(y.reason) < reasonMost {
			y.reason = append(y.reason, strings.TrimSpace(string(line[1:])))
		}
		return true
	case line[0] == '_' && len(line) > 4 && line[1] == '_':
		y.short()
		y.test, y.reason, y.at = strings.Trim(string(line), "_ "), nil, held{}
		return false
	case line[0] == 'T' && bytes.HasPrefix(line, []byte("Traceback (most recent call last)")):
		y.file, y.inStack = "", true
		return true
	case y.inStack && line[0] == ' ':
		return y.frame(line)
	case y.inStack:
		return y.raised(line)
	case line[0] == '=' && len(y.reason) > 0:
		y.short()
	case line[0] == 'F' && bytes.HasPrefix(line, []byte("FAILED ")):
		return y.summary(line[len("FAILED "):])
	case line[0] != ' ' && line[0] != '>' && bytes.Contains(line, []byte(".py:")):
		return y.named(line)
	}
	return false
}

// short ends a failure in pytest's short form.
func (y *python) short() {
	if y.at.file != "" && len(y.reason) > 0 {
		y.p.add(y.at.file, y.at.line, 0, "failure", y.test, strings.Join(y.reason, "\n"))
	}
	y.reason, y.at = nil, held{}
}

// frame reads `  File "/workspace/a.py", line 12, in test_sum`.
func (y *python) frame(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte(`  File "`))
	name, after, closed := bytes.Cut(rest, []byte(`", line `))
	if !ok || !closed {
		return true // the source of a frame
	}
	if row, _ := number(after, 0); row > 0 {
		if file := y.p.resolve(name); file != "" {
			y.file, y.row = file, row
		}
	}
	return true
}

// raised reads the end of a traceback: `AssertionError: 1 != 2`.
func (y *python) raised(line []byte) bool {
	y.inStack = false
	if y.file == "" {
		return false
	}
	y.p.open = y.p.add(y.file, y.row, 0, "failure", y.test, string(line))
	return true
}

// named reads `tests/test_sum.py:12: AssertionError` behind the reasons.
func (y *python) named(line []byte) bool {
	colon := bytes.Index(line, []byte(".py:"))
	if colon < 1 {
		return false
	}
	row, end := number(line, colon+4)
	if row == 0 || end >= len(line) || line[end] != ':' {
		return false
	}
	file := y.p.resolve(line[:colon+3])
	if bytes.HasPrefix(line[end:], []byte(": in ")) {
		if file != "" {
			y.at = held{file: file, line: row}
		}
		return true
	}
	if file == "" || len(y.reason) == 0 {
		return false
	}
	y.p.add(file, row, 0, "failure", y.test, strings.Join(y.reason, "\n"))
	y.reason = nil
	return true
}

// summary reads `src/test_p.py::TestB::test_b[1] - ValueError: no 1`, where pytest prints nothing else of it (--tb=no): it stands where
// the test does.
func (y *python) summary(line []byte) bool {
	id, reason, _ := bytes.Cut(line, []byte(" - "))
	name, test, ok := strings.Cut(string(id), "::")
	file := y.p.resolve([]byte(name))
	if !ok || file == "" {
		return false
	}
	if !y.summed[file] {
		for told := range y.p.seen {
			if told.path == file {
				return true
			}
		}
		if y.summed == nil {
			y.summed = map[string]bool{}
		}
		y.summed[file] = true
	}
	y.p.add(file, y.p.defined(file, test), 0, "failure", strings.ReplaceAll(test, "::", "."), orElse(string(reason), "failed"))
	return true
}

// defined is the line on which a test begins, or the first.
func (p *parser) defined(file, test string) int {
	data, err := p.src.Tree.Read(file)
	if err != nil || len(data) > 1<<20 {
		return 1
	}
	test, _, _ = strings.Cut(test, "[")
	at := 0
	for part := range strings.SplitSeq(test, "::") {
		for _, word := range []string{"class ", "def "} {
			if found := bytes.Index(data[at:], []byte(word+part)); found >= 0 {
				at += found
				break
			}
		}
	}
	return bytes.Count(data[:at], []byte("\n")) + 1
}
