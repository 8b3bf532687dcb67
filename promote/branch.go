package promote

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

const slugMax = 40

// BranchRoot is what all branches of the bot lie below. Git cannot have a branch of that name beside them.
const BranchRoot = "sandpiper"

// InTheWay says so to people.
const InTheWay = "a branch named `" + BranchRoot + "` is in the way: git has no place for the bot's branches `" + BranchRoot + "/…` beside it; rename or delete it"

// BranchName is sandpiper/<issue>-<slug>-<n>, or sandpiper/<slug>-<n> without an issue: ASCII letters, digits, hyphens and
// one slash, so that git check-ref-format and every shell take it.
func BranchName(issue int, title string, n int) string {
	return fmt.Sprintf("%s%d", branchPrefix(issue, title), max(n, 1))
}

func branchPrefix(issue int, title string) string {
	if issue > 0 {
		return fmt.Sprintf("%s/%d-%s-", BranchRoot, issue, slug(title))
	}
	return BranchRoot + "/" + slug(title) + "-"
}

// spelled are letters that do not come apart into an ASCII letter and a mark.
var spelled = strings.NewReplacer("ß", "ss", "æ", "ae", "ø", "o", "đ", "d", "ł", "l", "œ", "oe", "þ", "th", "ð", "d", "ı", "i")

// slug is the title in [a-z0-9] and single hyphens, cut between words where that leaves something. A title without any
// such letter is "change".
func slug(title string) string {
	if r := []rune(title); len(r) > 1000 {
		title = string(r[:1000])
	}
	var b strings.Builder
	gap := false
	for _, r := range norm.NFKD.String(spelled.Replace(strings.ToLower(title))) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
		case unicode.Is(unicode.Mn, r) || r == '\'' || r == '’': // é comes apart into e and a mark; "can't" is one word
		default:
			gap = true
		}
	}
	s := b.String()
	if len(s) > slugMax {
		s = s[:slugMax+1]
		if at := strings.LastIndexByte(s, '-'); at >= slugMax/2 {
			s = s[:at]
		}
		s = strings.Trim(s[:min(len(s), slugMax)], "-")
	}
	if s == "" {
		return "change"
	}
	return s
}
