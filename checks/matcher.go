package checks

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"strconv"
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
	found    [6]string
}

type pattern struct {
	form   *regexp.Regexp
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
	if line[0] == ':' && bytes.HasPrefix(line, []byte("::")) {
		return m.command(string(line[2:]))
	}
	if len(line) > matchedLine {
		return false
	}
	for _, one := range m.list {
		if one.match(m.p, line) {
			for _, other := range m.list {
				if other != one {
					other.at, other.found = 0, [6]string{}
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
	level := map[string]string{"error": "failure", "warning": "warning", "notice": "notice"}[name]
	if level == "" {
		return false
	}
	values := map[string]string{}
	for _, p := range strings.Split(properties, ",") {
		key, value, _ := strings.Cut(p, "=")
		values[strings.TrimSpace(key)] = unescape.Replace(value)
	}
	row, _ := strconv.Atoi(values["line"])
	col, _ := strconv.Atoi(orElse(values["col"], values["column"]))
	if file := m.p.resolve([]byte(values["file"])); file != "" {
		m.p.add(file, max(row, 1), col, level, values["title"], unescape.Replace(message))
	}
	return true
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
			one.patterns = append(one.patterns, pattern{form, [6]int{p.File, p.Line, p.Column, p.Severity, p.Message, p.Code}, p.Loop})
		}
		if one != nil && len(one.patterns) > 0 && len(one.patterns) <= 10 && len(m.list) < matcherMost {
			m.list = append(m.list, one)
		}
	}
}

// match takes a line as the next of the matcher's patterns, or as its first. The last pattern may hold for several lines. A line is
// the matcher's own only when it is the last that is needed: that of eslint in actions/setup-node begins with any line at all.
func (m *matcher) match(p *parser, line []byte) bool {
	if m.at > 0 && !m.take(line, m.at) {
		m.at, m.found = 0, [6]string{}
	}
	if m.at == 0 && !m.take(line, 0) {
		return false
	}
	if m.at++; m.at < len(m.patterns) {
		return false
	}
	row, _ := strconv.Atoi(m.found[1])
	col, _ := strconv.Atoi(m.found[2])
	level := map[string]string{"warning": "warning", "notice": "notice", "info": "notice"}[strings.ToLower(orElse(m.found[3], m.level))]
	if file := p.resolve([]byte(m.found[0])); file != "" && row > 0 {
		p.add(file, row, col, orElse(level, "failure"), m.found[5], m.found[4])
	}
	if last := len(m.patterns) - 1; m.patterns[last].loop && last > 0 {
		m.at = last
	} else {
		m.at, m.found = 0, [6]string{}
	}
	return true
}

func (m *matcher) take(line []byte, at int) bool {
	groups := m.patterns[at].form.FindSubmatch(line)
	if groups == nil {
		return false
	}
	for i, g := range m.patterns[at].groups {
		if g > 0 && g < len(groups) {
			m.found[i] = string(groups[g])
		}
	}
	return true
}
