package checks

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"strings"
)

// matchers reads what a repository says of its own tools: GitHub's problem matchers
// (https://github.com/actions/toolkit/blob/main/docs/problem-matchers.md), from files of the tree that the log names with
// ::add-matcher::, and from .github/problem-matchers.json. It also hears ::error file=…,line=…::, GitHub's workflow command.
type matchers struct {
	p      *parser
	looked bool
	list   []*matcher
}

type matcher struct {
	level    string
	patterns []pattern
	at       int // patterns that the lines before have met
	found    [6][]byte
	first    []byte // a line that the first pattern may match, which is looked at when the second one may match the next line
}

type pattern struct {
	form   *regexp.Regexp
	needs  needs
	groups [6]int // file, line, column, severity, message, code
	loop   bool
}

const (
	matcherMost = 20       // matchers of one log
	matcherFile = 64 << 10 // bytes of one file
	matchedLine = 1 << 10  // bytes of a line that is matched
)

func (m *matchers) line(line []byte) bool {
	if !m.looked {
		m.looked = true
		m.load(".github/problem-matchers.json")
	}
	if line[0] == ':' || line[0] == ' ' {
		if text, ok := bytes.CutPrefix(bytes.TrimLeft(line, " "), []byte("::")); ok {
			return m.command(string(text))
		}
	}
	if len(line) > matchedLine {
		return false
	}
	for _, one := range m.list {
		if one.match(m.p, line) {
			for _, other := range m.list {
				if other != one {
					other.reset()
				}
			}
			return true
		}
	}
	return false
}

// command reads ::add-matcher::path and ::error file=a.js,line=1,col=2,title=T::message.
func (m *matchers) command(text string) bool {
	head, message, ok := strings.Cut(text, "::")
	if !ok {
		return false
	}
	name, properties, _ := strings.Cut(head, " ")
	if name == "add-matcher" {
		m.load(message)
		return true
	}
	level := severity(name)
	if level == "" {
		return false
	}
	var file, row, col, title string
	for p := range strings.SplitSeq(properties, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch key {
		case "file":
			file = unescape.Replace(value)
		case "line":
			row = value
		case "col", "column":
			col = value
		case "title":
			title = unescape.Replace(value)
		}
	}
	if file := m.p.resolve([]byte(file)); file != "" {
		m.p.add(file, max(whole([]byte(row)), 1), whole([]byte(col)), level, title, unescape.Replace(message))
	}
	return true
}

// severity is GitHub's word for a level of what its matchers and commands say; "" of another word.
func severity(word string) string {
	switch strings.ToLower(word) {
	case "error":
		return "failure"
	case "warning":
		return "warning"
	case "notice", "info":
		return "notice"
	}
	return ""
}

// whole is a number of at most seven digits that is all of text, or 0.
func whole(text []byte) int {
	if n, end := number(text, 0); end == len(text) {
		return n
	}
	return 0
}

var unescape = strings.NewReplacer("%25", "%", "%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",")

// load adds the matchers of a file of the tree. What it cannot read it leaves out: GitHub's expressions are JavaScript's, and few of
// them use what RE2 does not have.
func (m *matchers) load(name string) {
	name = strings.TrimPrefix(path.Clean(strings.TrimSpace(name)), m.p.src.Root+"/")
	if !m.p.src.Tree.Exists(name) {
		return
	}
	data, err := m.p.src.Tree.Read(name)
	if err != nil || len(data) > matcherFile {
		return
	}
	var file struct {
		ProblemMatcher []struct {
			Severity string
			Pattern  []struct {
				Regexp                                      string
				File, Line, Column, Severity, Message, Code int
				Loop                                        bool
			}
		}
	}
	if json.Unmarshal(data, &file) != nil {
		return
	}
	for _, f := range file.ProblemMatcher {
		one := &matcher{level: orElse(f.Severity, "error")}
		for _, p := range f.Pattern {
			form, err := regexp.Compile(p.Regexp)
			if err != nil {
				one = nil
				break
			}
			one.patterns = append(one.patterns, pattern{form, needsOf(p.Regexp), [6]int{p.File, p.Line, p.Column, p.Severity, p.Message, p.Code}, p.Loop})
		}
		if one != nil && len(one.patterns) > 0 && len(one.patterns) <= 10 && len(m.list) < matcherMost {
			m.list = append(m.list, one)
		}
	}
}

// match takes a line as the next of the matcher's patterns, or as its first. The last pattern may hold for several lines. A line is
// the matcher's own only when it is the last that is needed: that of eslint in actions/setup-node begins with any line at all.
func (m *matcher) match(p *parser, line []byte) bool {
	if m.first != nil {
		first := m.first
		m.first = nil
		if m.patterns[1].needs.met(line) && m.take(first, 0) {
			m.at = 1
		}
	}
	if m.at > 0 && !m.take(line, m.at) {
		m.reset()
	}
	if m.at == 0 {
		if len(m.patterns) > 1 {
			if m.patterns[0].needs.met(line) {
				m.first = line
			}
			return false
		}
		if !m.take(line, 0) {
			return false
		}
	}
	if m.at++; m.at < len(m.patterns) {
		return false
	}
	m.tell(p)
	return true
}

// tell records what all patterns together have found, and begins anew.
func (m *matcher) tell(p *parser) {
	row, col := whole(m.found[1]), whole(m.found[2])
	if file := p.resolve(m.found[0]); file != "" && row > 0 {
		p.add(file, row, col, orElse(severity(orElse(string(m.found[3]), m.level)), "failure"), string(m.found[5]), string(m.found[4]))
	}
	if last := len(m.patterns) - 1; m.patterns[last].loop && last > 0 {
		m.at = last
	} else {
		m.reset()
	}
}

func (m *matcher) reset() { m.at, m.found, m.first = 0, [6][]byte{}, nil }

func (m *matcher) take(line []byte, at int) bool {
	if !m.patterns[at].needs.met(line) {
		return false
	}
	groups := m.patterns[at].form.FindSubmatchIndex(line)
	if groups == nil {
		return false
	}
	for i, g := range m.patterns[at].groups {
		if g > 0 && 2*g < len(groups) {
			m.found[i] = nil
			if groups[2*g] >= 0 {
				m.found[i] = line[groups[2*g]:groups[2*g+1]]
			}
		}
	}
	return true
}
