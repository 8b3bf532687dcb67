package agent

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden is text that a person who reads the page does not see.
type Hidden struct {
	Kind   string `json:"kind"`           // html comment, html attribute, link title, zero width, bidi control, tag characters, …
	Count  int    `json:"count"`          // occurrences
	Bytes  int    `json:"bytes"`          // of all of them
	Kept   bool   `json:"kept,omitempty"` // left in the text, only reported
	Sample string `json:"-"`              // the beginning of the first one, quoted; not for the agent's eyes
}

const sampleBytes = 160

// tally counts hidden text by kind, in the order of appearance.
type tally struct{ found []Hidden }

func (t *tally) add(kind, text string, kept bool) {
	for i := range t.found {
		if t.found[i].Kind == kind && t.found[i].Kept == kept {
			t.found[i].Count++
			t.found[i].Bytes += len(text)
			return
		}
	}
	sample := text
	if len(sample) > sampleBytes {
		sample = sample[:sampleBytes]
	}
	t.found = append(t.found, Hidden{Kind: kind, Count: 1, Bytes: len(text), Kept: kept, Sample: fmt.Sprintf("%+q", plainTags(sample))})
}

// plainTags shows what tag characters spell: each stands for the ASCII letter 0xE0000 below it.
func plainTags(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0xE0020 && r <= 0xE007E {
			return r - 0xE0000
		}
		return r
	}, s)
}

// Visible gives Markdown text as a person sees it at GitHub, and what was taken out: HTML comments, attributes and
// declarations, titles that show only under the mouse, and letters without a shape. All else stays byte for byte.
// Where it is in doubt whether something shows, such as a comment in an indented block of code, it is taken out and reported.
func Visible(markdown string) (string, []Hidden) {
	var t tally
	s := stripInvisible(markdown, &t)
	s = stripMarkup(s, &t)
	return s, t.found
}

// VisibleLine is Visible for text that GitHub does not read as Markdown: the title of an issue.
func VisibleLine(s string) (string, []Hidden) {
	var t tally
	return stripInvisible(s, &t), t.found
}

// stripInvisible takes out runes without a shape, but for those that make up emoji and scripts.
func stripInvisible(s string, t *tally) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || invisible(r) != "" }) {
		return s
	}
	var b strings.Builder
	runes := decode(s)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		kind := invisible(r.rune)
		switch {
		case r.bad:
			t.add("no UTF-8", r.text, false)
			b.WriteRune(utf8.RuneError)
		case kind == "":
			b.WriteString(r.text)
		case joins(runes, i):
			b.WriteString(r.text)
		case kind == "tag characters":
			end := i
			for end < len(runes) && invisible(runes[end].rune) == kind {
				end++
			}
			text := concat(runes[i:end])
			if flagOf(runes, i, end) {
				b.WriteString(text)
			} else {
				t.add(kind, text, false)
			}
			i = end - 1
		default:
			t.add(kind, r.text, false)
		}
	}
	return b.String()
}

type glyph struct {
	rune rune
	text string
	bad  bool
}

func decode(s string) []glyph {
	out := make([]glyph, 0, len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		out = append(out, glyph{r, s[i : i+n], r == utf8.RuneError && n == 1})
		i += n
	}
	return out
}

func concat(g []glyph) string {
	var b strings.Builder
	for _, x := range g {
		b.WriteString(x.text)
	}
	return b.String()
}

// invisible names the kind of a rune that has no shape; empty: it has one, or is white space that people know.
func invisible(r rune) string {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return ""
	case r < 0x20 || r >= 0x7F && r < 0xA0:
		return "control character"
	case r == 0xAD:
		return "soft hyphen"
	case r == 0x061C || r >= 0x200E && r <= 0x200F || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069:
		return "bidi control"
	case r >= 0x200B && r <= 0x200D, r >= 0x2060 && r <= 0x2064, r == 0xFEFF, r == 0x034F, r == 0x180E, r >= 0x206A && r <= 0x206F,
		r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0, r == 0x17B4, r == 0x17B5, r >= 0xFFF9 && r <= 0xFFFB:
		return "zero width"
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0100 && r <= 0xE01EF, r >= 0x180B && r <= 0x180D, r == 0x180F:
		return "variation selector"
	case r >= 0xE0000 && r <= 0xE0FFF:
		return "tag characters"
	case r >= 0xFDD0 && r <= 0xFDEF || r&0xFFFE == 0xFFFE:
		return "control character" // Unicode's noncharacters
	case unicode.Is(unicode.Cf, r) && !shapedFormat(r):
		return "format character"
	}
	return ""
}

// shapedFormat are the format characters that do show: Arabic, Syriac and Kaithi signs that enclose numbers.
func shapedFormat(r rune) bool {
	return r >= 0x0600 && r <= 0x0605 || r == 0x06DD || r == 0x070F || r == 0x0890 || r == 0x0891 || r == 0x08E2 || r == 0x110BD || r == 0x110CD
}

// joins says whether a joiner or a variation selector does its proper work between or behind visible runes: emoji made
// of several (a joiner between two symbols), scripts that join (between two letters that are not Latin), one selector behind
// a symbol, a digit of a keycap, or a Han letter. Two in a row never are.
func joins(g []glyph, i int) bool {
	if i == 0 || g[i-1].bad {
		return false
	}
	before := g[i-1].rune
	switch r := g[i].rune; {
	case r == 0x200C || r == 0x200D:
		if i+1 == len(g) || g[i+1].bad {
			return false
		}
		selected := before == 0xFE0F && i > 1 && unicode.Is(unicode.So, g[i-2].rune)
		after := g[i+1].rune
		emoji := r == 0x200D && (symbol(before) || selected) && symbol(after)
		return emoji || joinable(before) && joinable(after)
	case r >= 0xFE00 && r <= 0xFE0F:
		return symbol(before) || before >= '0' && before <= '9' || before == '#' || before == '*'
	case r >= 0xE0100 && r <= 0xE01EF:
		return unicode.Is(unicode.Han, before)
	case r >= 0x180B && r <= 0x180D || r == 0x180F:
		return unicode.Is(unicode.Mongolian, before)
	}
	return false
}

// symbol takes the skin tones (Sk) and the other symbols that emoji are made of.
func symbol(r rune) bool {
	return r > 0x7F && (unicode.Is(unicode.So, r) || unicode.Is(unicode.Sm, r) || r >= 0x1F3FB && r <= 0x1F3FF || r >= 0x2030 && r <= 0x303F && unicode.Is(unicode.Po, r))
}

func joinable(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati,
		unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan)
}

// flagOf says whether g[i:end] makes the black flag before it into one of the three flags that Unicode recommends to spell with
// tag characters (https://unicode.org/reports/tr51/, RGI emoji tag sequences).
func flagOf(g []glyph, i, end int) bool {
	if i == 0 || g[i-1].rune != 0x1F3F4 || end == i || g[end-1].rune != 0xE007F {
		return false
	}
	switch plainTags(concat(g[i : end-1])) {
	case "gbeng", "gbsct", "gbwls":
		return true
	}
	return false
}
