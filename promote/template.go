package promote

import (
	"context"
	"regexp"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// templateFiles are where GitHub looks for the template of pull requests; the names are read without regard to case there,
// and these are the two spellings that people use.
var templateFiles = []string{
	".github/pull_request_template.md", ".github/PULL_REQUEST_TEMPLATE.md", "pull_request_template.md", "PULL_REQUEST_TEMPLATE.md",
	"docs/pull_request_template.md", "docs/PULL_REQUEST_TEMPLATE.md",
}

// templateHead begins the part of a body that is the repository's template.
const templateHead = "\n### The repository's template\n"

// template reads the repository's template, of the commit that the change stands on.
func (p *publication) template(ctx context.Context) (string, error) {
	text, err := p.first(ctx, p.req.Staged.Base, templateFiles)
	return harmless(text), err
}

var (
	htmlComment = regexp.MustCompile(`(?s)<!--.*?(-->|$)`)
	ticked      = regexp.MustCompile(`(?m)^(\s*[-*+] )\[[xX]\]`)
	anyBox      = regexp.MustCompile(`(?m)^([ \t]*[-*+] )\[([ xX])\](.*)$`)
	reference   = regexp.MustCompile(`([@#])([A-Za-z0-9])`)
	manyBlank   = regexp.MustCompile(`\n{3,}`)
)

// keepTicks ticks the boxes of a template that people have ticked in the body as it is: that was their word. A line that stands there
// twice counts by its order.
func keepTicks(filled, body string) string {
	_, body, _ = strings.Cut(strings.ReplaceAll(body, "\r\n", "\n"), templateHead)
	ticks := map[string][]bool{}
	for line := range strings.Lines(body) {
		if box := anyBox.FindStringSubmatch(strings.TrimRight(line, "\n")); box != nil {
			ticks[box[3]] = append(ticks[box[3]], box[2] != " ")
		}
	}
	return anyBox.ReplaceAllStringFunc(filled, func(line string) string {
		box := anyBox.FindStringSubmatch(line)
		was := ticks[box[3]]
		if len(was) == 0 {
			return line
		}
		ticks[box[3]] = was[1:]
		if !was[0] {
			return line
		}
		return box[1] + "[x]" + box[3]
	})
}

// harmless keeps a template's headings and boxes, and takes out what would speak to people or close issues. No box is
// ticked: that is a person's word.
func harmless(text string) string {
	text = quote.Clean(strings.ReplaceAll(text, "\r\n", "\n"))
	text = htmlComment.ReplaceAllString(text, "")
	text = ticked.ReplaceAllString(text, "$1[ ]")
	text = reference.ReplaceAllString(text, "$1&#8203;$2")
	return quote.Cut(strings.TrimSpace(manyBlank.ReplaceAllString(text, "\n\n")), 8000, "\n\n_truncated_")
}
