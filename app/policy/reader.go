package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// reader walks the tree of a file and collects problems instead of stopping at the first.
type reader struct {
	file     string
	at       map[string]Position
	problems []Problem
}

func (r *reader) problem(n ast.Node, key, hint, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{File: r.file, Position: position(n), Key: key, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
}

// field is one key that a map may have.
type field struct {
	name     string
	read     func(n ast.Node, key string)
	required bool
}

// mapping reads a map with these keys and no others.
func (r *reader) mapping(n ast.Node, key string, fields ...field) {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.wrongKind(n, key, "keys with values, such as "+fields[0].name+": …")
		return
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	seen := map[string]Position{}
	for it := m.MapRange(); it.Next(); {
		r.entry(it.KeyValue(), key, fields, names, seen)
	}
	for _, f := range fields {
		if _, ok := seen[f.name]; f.required && !ok {
			r.problem(n, key, "", "%s needs a %s", strings.TrimPrefix(key, "."), f.name)
		}
	}
}

func (r *reader) entry(kv *ast.MappingValueNode, key string, fields []field, names []string, seen map[string]Position) {
	k, ok := kv.Key.(*ast.StringNode)
	if !ok {
		r.problem(kv.Key, key, "keys are plain words", "this key cannot be used here")
		return
	}
	if first, twice := seen[k.Value]; twice {
		r.problem(k, join(key, k.Value), "", "%s is set twice; first in line %d", quote(k.Value), first.Line)
		return
	}
	seen[k.Value] = position(k)
	i := slices.Index(names, k.Value)
	if i < 0 {
		r.problem(k, join(key, k.Value), unknownHint(key, k.Value, names), "unknown key %s", quote(k.Value))
		return
	}
	full := join(key, k.Value)
	r.at[full] = position(k)
	if kv.Value == nil || kv.Value.Type() == ast.NullType {
		r.problem(k, full, "give it one, or remove the line", "%s has no value", k.Value)
		return
	}
	fields[i].read(kv.Value, full)
}

// unknownHint knows words of other tools that people bring along.
func unknownHint(parent, word string, names []string) string {
	if parent == "" && (word == "label" || word == "labels") {
		return "write it as triggers: {labels: [" + "name]}"
	}
	return didYouMean(word, names)
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// text reads a scalar that was written as text.
func (r *reader) text(n ast.Node, key string) (string, bool) {
	switch t := n.(type) {
	case *ast.StringNode:
		return t.Value, true
	case *ast.LiteralNode:
		return t.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		r.problem(n, key, fmt.Sprintf("in quotes: %q", n.GetToken().Value), "%s must be a text", last(key))
		return "", false
	}
	r.wrongKind(n, key, "a text")
	return "", false
}

// oneOf reads one of some words.
func (r *reader) oneOf(n ast.Node, key string, words ...string) (string, bool) {
	s, ok := r.text(n, key)
	if ok && !slices.Contains(words, s) {
		r.problem(n, key, didYouMean(s, words), "%s cannot be %s", last(key), quote(s))
		return "", false
	}
	return s, ok
}

// number reads a whole number between two bounds.
func (r *reader) number(n ast.Node, key string, low, high int) (int, bool) {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		r.wrongKind(n, key, fmt.Sprintf("a whole number from %d to %d", low, high))
		return 0, false
	}
	var v int64 = -1
	switch x := i.Value.(type) {
	case int64:
		v = x
	case uint64:
		v = int64(min(x, 1<<40))
	}
	if v < int64(low) || v > int64(high) {
		r.problem(n, key, fmt.Sprintf("from %d to %d", low, high), "%s cannot be %s", last(key), i.GetToken().Value)
		return 0, false
	}
	return int(v), true
}

func (r *reader) boolean(n ast.Node, key string) (value, ok bool) {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.wrongKind(n, key, "true or false")
		return false, false
	}
	return b.Value, true
}

// list reads each element of a list.
func (r *reader) list(n ast.Node, key string, each func(n ast.Node, key string)) bool {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongKind(n, key, "a list, such as [a, b]")
		return false
	}
	if len(s.Values) > maxList {
		r.problem(n, key, fmt.Sprintf("at most %d", maxList), "%s has %d entries", last(key), len(s.Values))
		return false
	}
	for i, v := range s.Values {
		k := fmt.Sprintf("%s[%d]", key, i)
		if v == nil || v.Type() == ast.NullType {
			r.problem(s, k, "give it a value, or remove it", "%s has an empty entry", last(key))
			continue
		}
		r.at[k] = position(v)
		each(v, k)
	}
	return true
}

// texts reads a list of texts, of which check says what is wrong with one (and a hint).
func (r *reader) texts(n ast.Node, key string, check func(string) (message, hint string)) []string {
	out := []string{}
	r.list(n, key, func(n ast.Node, k string) {
		s, ok := r.text(n, k)
		if !ok {
			return
		}
		if message, hint := check(s); message != "" {
			r.problem(n, k, hint, "%s", message)
			return
		}
		if slices.Contains(out, s) {
			r.problem(n, k, "remove one", "%s is named twice", quote(s))
			return
		}
		out = append(out, s)
	})
	return out
}

func (r *reader) globs(n ast.Node, key string) []string {
	return r.texts(n, key, func(s string) (string, string) {
		if m := checkGlob(s); m != "" {
			return "the path " + quote(s) + " " + m, ""
		}
		return "", ""
	})
}

func (r *reader) wrongKind(n ast.Node, key, want string) {
	what := last(key)
	if what == "" {
		what = "the file"
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.problem(n, key, "write the value out", "anchors and aliases are not read")
	case *ast.TagNode:
		r.problem(n, key, "remove the word with the !", "tags are not read")
	default:
		r.problem(n, key, "", "%s must be %s", what, want)
	}
}

// last is the part of a key that a person looks for in the line.
func last(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }
