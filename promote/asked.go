package promote

import (
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// issueMost bounds what is shown of an issue's text, and of the words of who asked.
const issueMost = 4000

// asked says what was asked, and by whom: a reader should not need another page for it, and what stands there may be edited since.
func (p *publication) asked(w *page) {
	r := p.req
	kind := "issue"
	switch {
	case r.Stacked:
		kind = "pull request"
		w.printf("On top of #%d\n", r.Issue)
	case r.Issue > 0:
		w.printf("Closes #%d\n", r.Issue)
	}
	w.printf("\n### What was asked\n\n")
	w.printf("%s", w.text(r.Title))
	if r.Issue > 0 {
		w.printf(" (%s #%d)", kind, r.Issue)
	}
	if r.Requester.Login != "" {
		w.printf(", requested by %s", w.cell(r.Requester.Login))
	}
	w.printf(".\n")
	if strings.TrimSpace(r.Text) != "" && w.rows > 10 {
		w.printf("\n<details><summary>The text of the %s, as it was then</summary>\n\n%s\n\n</details>\n", kind, w.words(r.Text))
	}
	if r.Instruction != "" {
		w.printf("\nWith these words:\n\n%s\n", w.words(r.Instruction))
	}
	p.round(w)
	if reason, _ := r.draft(); reason != "" {
		w.printf("%s%s\n", draftMark, w.text(reason))
	}
	for _, note := range p.result.Notes {
		w.printf("\n> %s\n", w.text(note))
	}
}

// round says who has asked for the latest round of work.
func (p *publication) round(w *page) {
	f := p.req.FollowUp
	if f == nil {
		return
	}
	for i, a := range f.Asked {
		if i == min(w.rows, 10) {
			break
		}
		w.printf("\nRound %d was asked for by %s", f.Round, w.cell(a.What))
		if to := link("in a review", a.URL); to != "" {
			w.printf(", %s", to)
		}
		if a.Note == "" {
			w.printf(".\n")
			continue
		}
		w.printf(":\n\n%s\n", w.words(a.Note))
	}
}

// words are somebody's, as they stand there.
func (w *page) words(s string) string {
	return quote.Fence(quote.Cut(w.redact(s), issueMost, "\n… truncated"))
}
