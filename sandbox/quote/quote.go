// Package quote puts text that others wrote into what the bot posts on GitHub, harmlessly.
//
// Titles, paths, log lines and agents' words are data: quoted by this package they ping nobody, close no issue, link
// nowhere, cannot end the block that they stand in, and hide nothing from the reader. The package must not know what
// the text is about, and does not redact secrets: redact first, because escaping would hide a secret from a redactor.
package quote

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean removes from s what a reader cannot see: control characters but newline and tab, bytes that are not UTF-8 (each
// becomes U+FFFD), and every invisible or direction-changing code point. The joiners U+200C and U+200D stay, because
// scripts and emoji need them, and so does U+FE0F.
func Clean(s string) string {
	if plainASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= ' ' && r < 0x7f:
			return r
		case r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d' || r == '\ufe0f':
			return r
		case r == '\u2028' || r == '\u2029':
			return ' '
		case hidden(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

func plainASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// hidden knows the classes Cc and Cf (bidirectional controls, zero-width characters, the tag characters U+E0000…, the
// soft hyphen) and the few code points of other classes that are drawn as nothing: fillers and variation selectors,
// which can carry arbitrary bytes unseen.
func hidden(r rune) bool {
	switch {
	case unicode.In(r, unicode.Cc, unicode.Cf):
		return true
	case r == '\u034f', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0', r == '\u17b4', r == '\u17b5':
		return true
	case r >= 0xfe00 && r <= 0xfe0e, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return unicode.Is(unicode.Noncharacter_Code_Point, r)
}

// Line is Clean on one line: all white space becomes single spaces, none at the ends.
func Line(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// Cut shortens s to at most n bytes on a rune border, the mark included if anything was cut.
func Cut(s string, n int, mark string) string {
	if len(s) <= n {
		return s
	}
	n = max(n-len(mark), 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// Code is s as a code span, in which GitHub resolves no mention, reference, link or HTML.
func Code(s string) string {
	s = Line(s)
	if s == "" {
		return "_(empty)_"
	}
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if s[0] == '`' || s[len(s)-1] == '`' {
		s = " " + s + " "
	}
	return fence + s + fence
}

// Cell is Code for a cell of a table, where a bar must be escaped even in a code span (GFM specification, section 4.10).
func Cell(s string) string { return strings.ReplaceAll(Code(s), "|", `\|`) }

// Fence is s as a fenced block that nothing in s can close. It ends without a newline, and is at most 250 bytes longer
// than s: endless runs of backticks are shortened, since the fence must be longer than the longest.
func Fence(s string) string {
	return fenced("text", endless.ReplaceAllString(strings.TrimRight(Clean(s), "\n"), "$1…")+"\n")
}

func fenced(info, lines string) string {
	fence := strings.Repeat("`", max(longestRun(lines, '`')+1, 3))
	return fence + info + "\n" + lines + fence
}

// Exact is s, which is empty or whole lines, as a fenced block that nothing in s can close and in which each byte stands as it is: for
// text that people take over by a click. ok is false where that cannot be: a page would not show all of s, or s has endless backticks.
func Exact(info, s string) (block string, ok bool) {
	if s != "" && !strings.HasSuffix(s, "\n") || Clean(s) != s || endless.MatchString(s) {
		return "", false
	}
	return fenced(info, s), true
}

var endless = regexp.MustCompile("(`{100})`+")

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := 0; i < len(s); i++ {
		if s[i] != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
