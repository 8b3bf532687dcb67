package checks

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// needs is what a line must have to be matched by an expression: one of some bytes at its start, and of each list of texts one. Looking for
// those costs a tenth of running the expression, and most lines of a log do not have them.
type needs struct {
	start *[256]bool // nil: any
	texts [][][]byte
}

func (n needs) met(line []byte) bool {
	if n.start != nil && len(line) > 0 && !n.start[line[0]] {
		return false
	}
	for _, texts := range n.texts {
		if !slices.ContainsFunc(texts, func(t []byte) bool { return bytes.Contains(line, t) }) {
			return false
		}
	}
	return true
}

// needsOf reads an expression that compiles.
func needsOf(form string) (n needs) {
	tree, err := syntax.Parse(form, syntax.Perl)
	if err != nil {
		return n
	}
	tree = tree.Simplify()
	n.texts = textsOf(tree)
	var start [256]bool
	if done, anchored := startOf(tree, &start); done && anchored {
		n.start = &start
	}
	return n
}

// textsOf gives lists of texts: every match has one of each list. A single byte is in most lines, and not asked for beside longer ones.
func textsOf(re *syntax.Regexp) (all [][][]byte) {
	if texts := wordsOf(re); texts != nil {
		return [][][]byte{texts}
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return textsOf(re.Sub[0])
	case syntax.OpAlternate:
		var any [][]byte
		for _, sub := range re.Sub {
			texts := textsOf(sub)
			if len(texts) == 0 || len(any) > mostTexts {
				return nil
			}
			any = append(any, texts[0]...)
		}
		return [][][]byte{any}
	case syntax.OpConcat:
		var words [][]byte // that stand behind each other
		for _, sub := range append(slices.Clip(re.Sub), &syntax.Regexp{Op: syntax.OpEmptyMatch}) {
			more := wordsOf(sub)
			if words != nil && len(words)*len(more) > 0 && len(words)*len(more) <= mostTexts {
				words = joined(words, more)
				continue
			}
			if words != nil {
				all = append(all, words)
			}
			if words = more; more == nil {
				all = append(all, textsOf(sub)...)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b [][]byte) int { return shortest(b) - shortest(a) })
	for i, texts := range all {
		if i > 0 && shortest(texts) == 1 {
			return all[:i]
		}
	}
	return all
}

const mostTexts = 8

// wordsOf gives all that re can match, where that is a few words.
func wordsOf(re *syntax.Regexp) (words [][]byte) {
	switch re.Op {
	case syntax.OpLiteral:
		if exact(re) {
			return [][]byte{[]byte(string(re.Rune))}
		}
	case syntax.OpCapture:
		return wordsOf(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			more := wordsOf(sub)
			if words = append(words, more...); more == nil || len(words) > mostTexts {
				return nil
			}
		}
	}
	return words
}

func joined(first, second [][]byte) (all [][]byte) {
	for _, a := range first {
		for _, b := range second {
			all = append(all, slices.Concat(a, b))
		}
	}
	return all
}

func shortest(texts [][]byte) int {
	n := len(texts[0])
	for _, t := range texts {
		n = min(n, len(t))
	}
	return n
}

// exact says whether a literal is matched by its own bytes alone: U+FFFD is matched by each byte that is no UTF-8.
func exact(re *syntax.Regexp) bool {
	return re.Flags&syntax.FoldCase == 0 && !slices.Contains(re.Rune, utf8.RuneError)
}

// startOf adds the bytes that a match of re can begin with. done says that every match has one of them; a part that may be empty
// leaves the next one to say more. anchored says that a match begins where the line does.
func startOf(re *syntax.Regexp, start *[256]bool) (done, anchored bool) {
	switch re.Op {
	case syntax.OpBeginText:
		return false, true
	case syntax.OpEmptyMatch:
		return false, false
	case syntax.OpLiteral:
		if exact(re) {
			start[string(re.Rune)[0]] = true
			return true, false
		}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			addRange(start, re.Rune[i], re.Rune[i+1])
		}
		return true, false
	case syntax.OpCapture, syntax.OpPlus:
		return startOf(re.Sub[0], start)
	case syntax.OpStar, syntax.OpQuest:
		startOf(re.Sub[0], start)
		return false, false
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			d, a := startOf(sub, start)
			if anchored = anchored || a; d {
				return true, anchored
			}
		}
		return false, anchored
	case syntax.OpAlternate:
		done, anchored = true, true
		for _, sub := range re.Sub {
			d, a := startOf(sub, start)
			done, anchored = done && d, anchored && a
		}
		return done, anchored
	}
	for i := range start { // something else: any byte
		start[i] = true
	}
	return true, false
}

// addRange adds the first bytes of runes; of all that are not ASCII, all.
func addRange(start *[256]bool, lo, hi rune) {
	for c := lo; c <= hi && c < utf8.RuneSelf; c++ {
		start[c] = true
	}
	if hi >= utf8.RuneSelf {
		for i := utf8.RuneSelf; i < 256; i++ {
			start[i] = true
		}
	}
}
