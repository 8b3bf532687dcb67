package promote

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

const (
	subjectMax = 72 // what git log and GitHub show of a commit without cutting it
	titleMax   = 200
)

// commitSpec is the commit of a request: by the bot, with the requester as co-author, and with trailers that lead back.
func (r Request) commitSpec(redact func(string) string) sandbox.CommitSpec {
	bot := sandbox.Signature{Name: oneLine(r.Bot.Login, redact), Email: noreply(r.Bot), When: r.When}
	return sandbox.CommitSpec{Author: bot, Committer: bot, Message: CommitMessage(r, redact)}
}

// noreply is the address by which GitHub knows an account without showing its mail
// (https://docs.github.com/account-and-profile/reference/email-addresses-reference).
func noreply(p Person) string { return fmt.Sprintf("%d+%s@users.noreply.github.com", p.ID, p.Login) }

var loginForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-_]*(\[bot\])?$`)

// CommitMessage is subject, what it is, and trailers. The issue's title is the only text in it that a stranger wrote: it
// loses what would mention, close or skip something. The closing keyword stands in the pull request alone, where people
// see it before it works.
func CommitMessage(r Request, redact func(string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.subject(redact))
	where := oneLine(r.Owner+"/"+r.Repo, redact)
	if r.Issue > 0 {
		where = fmt.Sprintf("issue %d of %s", r.Issue, where)
	}
	by := ""
	if loginForm.MatchString(r.Requester.Login) {
		by = ", on request of " + r.Requester.Login
	}
	b.WriteString(wrap(fmt.Sprintf("Made by a coding agent in a sandbox for %s%s. The pull request says what it was given and how this was checked.", where, by), 72))
	b.WriteString("\n\n")
	b.WriteString(r.trailers(redact))
	return b.String()
}

// trailers lead back to what the commit is from.
func (r Request) trailers(redact func(string) string) string {
	var b strings.Builder
	if r.Issue > 0 {
		fmt.Fprintf(&b, "Refs: #%d\n", r.Issue)
	}
	fmt.Fprintf(&b, "Sandpiper-Mission: %s\nSandpiper-Run: %s\n", oneLine(r.Mission, redact), oneLine(string(r.Run), redact))
	if r.Signoff {
		fmt.Fprintf(&b, "Signed-off-by: %s <%s>\n", oneLine(r.Bot.Login, redact), noreply(r.Bot))
	}
	if loginForm.MatchString(r.Requester.Login) && r.Requester.ID > 0 {
		fmt.Fprintf(&b, "Co-authored-by: %s <%s>\n", r.Requester.Login, noreply(r.Requester))
	}
	if r.Staged.Merged() {
		fmt.Fprintf(&b, "Sandpiper-Merge-Base: %s\n", r.Staged.MergeBase)
	}
	return b.String()
}

// fixups would make an interactive rebase of a person fold the commit away.
var fixups = regexp.MustCompile(`(?i)^((fixup|squash|amend)!\s*)+`)

// title is the issue's title as the subject of a commit or the title of a pull request.
func title(r Request, limit int, redact func(string) string) string {
	s := quote.Plain(quote.Cut(redact(r.Title), 1000, ""))
	s = strings.TrimRight(strings.TrimSpace(fixups.ReplaceAllString(s, "")), ".")
	pattern := r.pattern()
	if conventional.MatchString(pattern) && conventional.MatchString(s) {
		pattern = "{title}"
	}
	if first, n := utf8.DecodeRuneInString(s); r.Style.Lower && unicode.IsUpper(first) && !isName(s[n:]) {
		s = string(unicode.ToLower(first)) + s[n:]
	}
	limit = max(limit-len(pattern)+len("{title}"), 20)
	if len(s) > limit {
		s = quote.Cut(s, limit, "")
		if at := strings.LastIndexByte(s[:len(s)-2], ' '); at > limit/2 {
			s = s[:at]
		}
		s = quote.Cut(s, limit-len("…"), "") + "…"
	}
	switch {
	case s != "":
	case r.Issue > 0:
		s = fmt.Sprintf("Work on issue %d", r.Issue)
	default:
		s = "Work of a coding agent"
	}
	return strings.Replace(pattern, "{title}", s, 1)
}

// isName says of a word without its first letter that it is no plain word: API, GitHub.
func isName(rest string) bool {
	word, _, _ := strings.Cut(rest, " ")
	return word != strings.ToLower(word)
}

// pattern is that of titles, with the issue's number in it.
func (r Request) pattern() string {
	p := r.Style.Pattern
	if p == "" {
		p = "{title}"
	}
	return strings.ReplaceAll(p, "{issue}", fmt.Sprint(r.Issue))
}

func oneLine(s string, redact func(string) string) string {
	return quote.Cut(quote.Plain(quote.Cut(redact(s), 2000, "")), 500, "…")
}

func wrap(s string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(s) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
