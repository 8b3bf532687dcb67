package agent

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// window bounds how far one construct of markup is looked for.
const window = 8 << 10

// scanner walks Markdown as GitHub's own reader does (https://github.github.com/gfm/), as far as it takes to tell code,
// where everything shows, from text, where HTML does not. Whatever could make it take text for code sets a doubt that lasts
// to the next blank line; in doubt nothing is code.
type scanner struct {
	s   string
	i   int
	out strings.Builder
	t   *tally

	fence    string // the opening run of ` or ~ of a block of code
	picture  bool   // GitHub draws that block: its text does not show
	html     bool   // in a block of HTML, or perhaps
	lineHTML bool   // the same until the end of the line
	tick     bool   // a run of ` without its end: pairs may be others than they seem
	raw      bool   // in <pre>, <script>, <style>, <textarea>: a blank line does not end the block of HTML
	prose    bool   // the line before begins with a letter: a paragraph, in which nothing is a definition
	uses     map[string]int

	container string // the marks of quotes and lists that the line before begins with
}

func stripMarkup(s string, t *tally) string {
	sc := &scanner{s: s, t: t, uses: map[string]int{}}
	for _, m := range labelForm.FindAllStringSubmatch(s, -1) {
		sc.uses[strings.ToLower(m[1])]++
	}
	for sc.i < len(sc.s) {
		sc.line()
	}
	return sc.out.String()
}

var (
	fenceForm      = regexp.MustCompile("^(?:(`{3,})([^`\r\n]*)|(~{3,})([^\r\n]*))(?:[\r\n]|$)")
	containerForm  = regexp.MustCompile(`^(?:[ \t]*(?:>|[-+*][ \t]|[0-9]{1,9}[.)][ \t]))+[ \t]*`)
	labelForm      = regexp.MustCompile(`\[(\^?[^\[\]\r\n]+)\]`)
	definitionForm = regexp.MustCompile(`^[ \t]*\[([^\[\]\r\n]+)\]:[ \t]*(?:\r?\n[ \t]*)?(<[^<>\r\n]*>|[^\s<]\S*)` +
		`(?:(?:[ \t]+|[ \t]*\r?\n[ \t]*)(?:"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|\((?:[^()\\]|\\[\s\S])*\)))?[ \t]*(?:\r?\n|\r|$)`)
	definedForm = regexp.MustCompile(`^[ \t]*\[([^\[\]\r\n]+)\]:`)
	titleForm   = regexp.MustCompile(`^\]\([ \t\r\n]*(<[^<>\r\n]*>|[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)` +
		`\s+((?:"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|\((?:[^()\\]|\\[\s\S])*\)))\s*\)`)
	emptyLinkForm = regexp.MustCompile(`^\[[ \t\r\n]*\]\((?:<[^<>\r\n]*>|[^\s()<>]*)(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)`)
	imageForm     = regexp.MustCompile(`^!\[([^\[\]]*)\]\(`)
	targetForm    = regexp.MustCompile(`^\]\(<([^<>\r\n]*)>`)
	entityForm    = regexp.MustCompile(`^&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|[A-Za-z]{2,24});`)
)

func (sc *scanner) rest() string { return sc.s[sc.i:min(len(sc.s), sc.i+window)] }

func (sc *scanner) write(n int) {
	sc.out.WriteString(sc.s[sc.i : sc.i+n])
	sc.i += n
}

func (sc *scanner) drop(n int, kind string) {
	sc.t.add(kind, sc.s[sc.i:sc.i+n], false)
	sc.i += n
}

// lineLength is the length of the line at i with what ends it: \n, \r\n or \r.
func (sc *scanner) lineLength() int {
	rest := sc.s[sc.i:]
	end := strings.IndexAny(rest, "\r\n")
	switch {
	case end < 0:
		return len(rest)
	case strings.HasPrefix(rest[end:], "\r\n"):
		return end + 2
	}
	return end + 1
}

// pictures are the languages of code that GitHub draws:
// https://docs.github.com/get-started/writing-on-github/working-with-advanced-formatting/creating-diagrams
var pictures = []string{"mermaid", "geojson", "topojson", "stl", "math"}

// line reads from the beginning of a line to the beginning of another.
func (sc *scanner) line() {
	n := sc.lineLength()
	text := strings.TrimRight(sc.s[sc.i:sc.i+n], "\r\n")
	wasProse := sc.prose
	sc.lineHTML, sc.prose = false, false
	switch {
	case sc.fence != "":
		if closes(text, sc.fence) {
			sc.fence = ""
		} else if sc.picture {
			sc.t.add("source of a picture", text, true)
		}
		sc.write(n)
	case strings.Trim(text, " \t") == "":
		sc.tick = false
		sc.html = sc.raw
		sc.write(n)
	case !sc.html && fenceForm.MatchString(text):
		m := fenceForm.FindStringSubmatch(text)
		language, _, _ := strings.Cut(strings.TrimSpace(m[2]+m[4]), " ")
		sc.fence, sc.picture = m[1]+m[3], slices.Contains(pictures, strings.ToLower(language))
		sc.tick = false
		sc.write(n)
	case text[0] == ' ' && !sc.html && !sc.tick && sc.indentedFence() > 0:
		sc.write(sc.indentedFence())
	default:
		before := sc.container
		sc.container = strings.TrimSpace(containerForm.FindString(text))
		sc.write(len(containerForm.FindString(text)))
		goesOn := wasProse && sc.container == before && strings.Trim(before, "> ") == ""
		if !goesOn && sc.definition() {
			return
		}
		first, _ := utf8.DecodeRuneInString(strings.TrimLeft(sc.s[sc.i:], " \t"))
		sc.prose = unicode.IsLetter(first) || unicode.IsDigit(first)
		sc.inline()
	}
}

// closes says whether a line ends a block of code: at most three spaces, at least as many of the same letter, nothing else.
func closes(line, fence string) bool {
	trimmed := strings.TrimLeft(line, " ")
	if len(line)-len(trimmed) > 3 {
		return false
	}
	trimmed = strings.TrimRight(trimmed, " \t")
	return len(trimmed) >= len(fence) && strings.Trim(trimmed, fence[:1]) == ""
}

var indentedFenceForm = regexp.MustCompile("^( +)(`{3,}|~{3,})([^`\r\n]*)$")

// indentedFence is the length of a block of code in a list, at i; 0: there is none. It is taken for one only when all its lines
// are indented as far as the first and it ends as it began: then it shows as code, whatever it stands in.
func (sc *scanner) indentedFence() int {
	const most = 2000 // lines
	var indent, fence string
	length := 0
	for line := range strings.Lines(sc.s[sc.i:]) {
		length += len(line)
		text := strings.TrimRight(line, "\r\n")
		body := strings.TrimSpace(text)
		switch {
		case strings.Contains(text, "\r") || length > most*80:
			return 0
		case fence == "":
			m := indentedFenceForm.FindStringSubmatch(text)
			if m == nil || strings.Contains(m[3], m[2][:1]) {
				return 0
			}
			indent, fence = m[1], m[2]
		case text == indent+fence:
			return length
		case body == "":
		case !strings.HasPrefix(text, indent), len(body) >= len(fence) && strings.Trim(body, fence[:1]) == "":
			return 0
		}
	}
	return 0
}

// definition takes out a definition that nothing refers to: it shows nowhere, and is a known way to write a comment
// ("[//]: # (text)"). Of one that is referred to only the title goes, with inline.
func (sc *scanner) definition() bool {
	defined := definedForm.FindStringSubmatch(sc.rest())
	if defined == nil || utf8.RuneCountInString(defined[1]) > 999 { // https://spec.commonmark.org/0.31.2/#link-label
		return false
	}
	used := sc.uses[strings.ToLower(defined[1])] > 1
	if strings.HasPrefix(defined[1], "^") {
		if used {
			return false
		}
		sc.drop(sc.paragraphLength(), "unused footnote")
		return true
	}
	m := definitionForm.FindStringSubmatchIndex(sc.rest())
	if m == nil {
		return false
	}
	if !used {
		sc.drop(m[1], "unused link definition")
		return true
	}
	title := strings.TrimRight(sc.rest()[m[5]:m[1]], "\r\n")
	sc.write(m[5])
	if strings.TrimSpace(title) != "" {
		sc.drop(len(title), "link title")
	} else {
		sc.write(len(title))
	}
	if sc.i < len(sc.s) {
		sc.write(sc.lineLength())
	}
	return true
}

// paragraphLength is the length from i to the next blank line.
func (sc *scanner) paragraphLength() int {
	length := 0
	for line := range strings.Lines(sc.s[sc.i:]) {
		if strings.TrimSpace(line) == "" {
			break
		}
		length += len(line)
	}
	return length
}

// inline reads to the end of the line, or beyond it to the end of the line in which a comment or a tag ends.
func (sc *scanner) inline() {
	for sc.i < len(sc.s) {
		code := !sc.html && !sc.lineHTML && !sc.tick
		switch c := sc.s[sc.i]; {
		case c == '\r' || c == '\n':
			sc.write(sc.lineLength())
			return
		case c == '\\' && !sc.html && !sc.lineHTML && sc.i+1 < len(sc.s) && strings.IndexByte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", sc.s[sc.i+1]) >= 0:
			sc.write(2)
		case c == '`':
			sc.ticks(code)
		case c == '<':
			sc.angle()
		case c == '[' || c == ']' || c == '!':
			sc.bracket()
		case c == '&':
			sc.entity()
		default:
			sc.write(1)
		}
	}
}

// ticks writes a span of code, if one begins and ends here.
func (sc *scanner) ticks(code bool) {
	line := strings.TrimRight(sc.s[sc.i:sc.i+sc.lineLength()], "\r\n")
	n := len(line) - len(strings.TrimLeft(line, "`"))
	if !code {
		sc.write(n)
		return
	}
	for at := n; at < len(line); {
		next := strings.IndexByte(line[at:], '`')
		if next < 0 {
			break
		}
		at += next
		run := len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
		at += run
		if run == n {
			sc.write(at)
			return
		}
	}
	sc.tick = true
	sc.write(n)
}

// bracket reads what is hidden in links and images.
func (sc *scanner) bracket() {
	rest := sc.rest()
	if m := emptyLinkForm.FindString(rest); m != "" && !strings.HasSuffix(sc.s[:sc.i], "!") {
		sc.drop(len(m), "empty link")
		return
	}
	if m := imageForm.FindStringSubmatch(rest); m != nil && words(m[1]) > 2 {
		sc.t.add("text of an image", m[1], true)
	}
	n := 1
	if m := targetForm.FindStringSubmatch(rest); m != nil {
		n = len(m[0])
		if words(m[1]) > 2 {
			sc.t.add("target of a link", m[1], true)
		}
	}
	if m := titleForm.FindStringSubmatchIndex(rest); m != nil {
		sc.t.add("link title", rest[m[4]:m[5]], false)
		sc.out.WriteString(rest[:m[3]] + ")")
		sc.i += m[1]
		return
	}
	sc.write(n)
}

func words(s string) int { return len(strings.Fields(s)) }

// entity takes out the written form of a letter without a shape, such as &#x200b; or &shy;.
func (sc *scanner) entity() {
	m := entityForm.FindString(sc.rest())
	if m == "" {
		sc.write(1)
		return
	}
	for _, r := range html.UnescapeString(m) {
		if kind := invisible(r); kind != "" && r != 0xFE0F {
			sc.drop(len(m), kind)
			return
		}
	}
	sc.write(len(m))
}
