package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of a file. A policy is a page of text; the parser needs time and memory in proportion to depth and length.
const (
	maxFile  = 32 << 10
	maxDepth = 12
	maxList  = 100
)

// Parse reads a policy. The error is an *Invalid with every problem of the file; name stands in front of each.
// A file without any key, or an empty one, is the default.
func Parse(name string, data []byte) (*Policy, error) {
	root, err := syntax(name, data)
	if err != nil {
		return nil, err
	}
	p := Default()
	p.file, p.at = name, map[string]Position{}
	if root == nil {
		return p, nil
	}
	r := &reader{file: name, at: p.at}
	r.policy(root, p)
	if len(r.problems) > 0 {
		return nil, &Invalid{Problems: sortProblems(r.problems)}
	}
	return p, nil
}

func sortProblems(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return ps
}

// syntax turns the text into one document, or says where it is no YAML. What YAML has beyond maps, lists and scalars is
// not read: aliases can make a small file huge, and tags name types of a programming language.
func syntax(name string, data []byte) (root ast.Node, err error) {
	if len(data) > maxFile {
		return nil, invalid(name, fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), maxFile), "")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if at, ok := badByte(data); ok {
		line := bytes.Count(data[:at], []byte("\n")) + 1
		column := at - bytes.LastIndexByte(data[:at], '\n')
		return nil, &Invalid{Problems: []Problem{{File: name, Position: Position{line, column}, Message: "this byte is no text", Hint: "write the file in UTF-8"}}}
	}
	if depth(data) > maxDepth*4 {
		return nil, invalid(name, "brackets are nested too deep", "")
	}
	// The parser has panicked on malformed files before (goccy/go-yaml#439, #479); a policy must not stop the bot.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, invalid(name, "the file is no YAML that can be read", "")
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(name, err)
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			docs = append(docs, d.Body)
		}
	}
	switch len(docs) {
	case 0:
		return nil, nil
	case 1:
		return docs[0], nil
	}
	return nil, &Invalid{Problems: []Problem{{File: name, Position: position(docs[1]), Message: "a second document begins here", Hint: "one file holds one policy; remove the ---"}}}
}

func syntaxError(name string, err error) error {
	var s *yaml.SyntaxError
	if !errors.As(err, &s) {
		return invalid(name, "the file is no YAML: "+firstLine(err.Error()), "")
	}
	p := Problem{File: name, Message: firstLine(s.Message)}
	if s.Token != nil && s.Token.Position != nil {
		p.Position = Position{s.Token.Position.Line, s.Token.Position.Column}
	}
	switch {
	case strings.Contains(p.Message, "tab") || strings.Contains(p.Message, "'\t'"):
		p.Hint = "indent with spaces"
	case strings.Contains(p.Message, "not allowed in this context"):
		p.Hint = "is it indented as the lines around it?"
	}
	return &Invalid{Problems: []Problem{p}}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.ToValidUTF8(s, "\uFFFD")
}

// badByte finds what is no UTF-8, and control characters that YAML does not allow.
func badByte(data []byte) (int, bool) {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			return i, true
		}
		i += n
	}
	return 0, false
}

// depth is how deep brackets are nested, without regard to quotes: more than enough for a bound.
func depth(data []byte) int {
	deepest, now := 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			now++
			deepest = max(deepest, now)
		case ']', '}':
			now = max(0, now-1)
		}
	}
	return deepest
}

func position(n ast.Node) Position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return position(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return position(m.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return Position{t.Position.Line, t.Position.Column}
	}
	return Position{}
}
