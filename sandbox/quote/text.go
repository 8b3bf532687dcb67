package quote

import (
	"regexp"
	"strings"
)

// zeroWidth breaks a mention, a reference or an address in two without changing how it looks. It is written as an entity
// so that the source of the comment shows it; a backslash alone does not keep GitHub from resolving `@name`.
const zeroWidth = "&#8203;"

// references are what GitHub resolves in running text after Markdown has been rendered: `@name` and addresses of mail,
// `#1` and `GH-1`, addresses of pages (a full issue address after "fixes" closes that issue too). The first group ends
// where the break goes.
var references = regexp.MustCompile(`(?i)(@)|(#)[0-9]|(\bgh-)[0-9]|(:)//|(\bwww\.)`)

// Text is s as running text on one line: no markup, mention, reference or link of it works.
func Text(s string) string {
	s = Line(s)
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for {
		at := references.FindStringSubmatchIndex(s)
		if at == nil {
			break
		}
		end := groupEnd(at)
		escape(&b, s[:end])
		b.WriteString(zeroWidth)
		s = s[end:]
	}
	escape(&b, s)
	return b.String()
}

// groupEnd is the end of the one group that took part in a match of references.
func groupEnd(at []int) int {
	for i := 3; i < len(at); i += 2 {
		if at[i] >= 0 {
			return at[i]
		}
	}
	return at[1]
}

func escape(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		case '\\', '`', '*', '_', '{', '}', '[', ']', '(', ')', '#', '+', '-', '.', '!', '|', '~', '$', '=', '^':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
}

var (
	mention   = regexp.MustCompile(`(^|[^\pL\pN_.])@+([\pL\pN])`)
	numbered  = regexp.MustCompile(`#+([0-9])`)
	prefixed  = regexp.MustCompile(`(?i)\b(gh)-([0-9])`)
	address   = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*)?://`)
	skipsCI   = regexp.MustCompile(`(?i)\[\s*(skip[ -]ci|ci[ -]skip|no[ -]ci|skip[ -]actions|actions[ -]skip)\s*\]`)
	trailerCI = regexp.MustCompile(`(?i)\bskip-checks\s*:\s*`)
)

// Plain is s as one line of a place that has no markup but is still read for references: a commit message, or the title
// of a pull request, which becomes a commit message when it is squashed. Mentions lose their @, references their # and
// addresses their scheme, so that "fixes #3" closes nothing; marks that switch CI off lose their brackets
// (https://docs.github.com/actions/managing-workflow-runs/skipping-workflow-runs).
func Plain(s string) string {
	s = Line(s)
	for range 10 {
		before := s
		s = mention.ReplaceAllString(s, "$1$2")
		s = numbered.ReplaceAllString(s, "$1")
		s = prefixed.ReplaceAllString(s, "$1 $2")
		s = address.ReplaceAllString(s, "")
		s = skipsCI.ReplaceAllString(s, "$1")
		s = trailerCI.ReplaceAllString(s, "skip checks ")
		if s == before {
			return Line(s)
		}
	}
	// Each removal may join what it stood between into a new one. Nobody's title needs this many rounds; what is left of such
	// a text is its words.
	return Line(words.Replace(s))
}

var words = strings.NewReplacer("@", "", "#", "", "/", "", "[", "", "]", "", "-", " ", ":", " ")
