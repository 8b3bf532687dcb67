package checks

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// summary is the upper half of a Check Run's page, in Markdown: what was run, how it ended, what that means, what can be done, and the
// log where it failed.
func (r *Reporter) summary(res Result, note string) string {
	var parts []string
	if head := r.head(res); head != "" {
		parts = append(parts, head)
	}
	parts = append(parts, strings.Join(facts(res), " · "))
	parts = append(parts, r.beside(res)...)
	if res.Omitted > 0 {
		parts = append(parts, fmt.Sprintf("%d annotations more were found and are left out; the log has them.", res.Omitted))
	}
	for _, said := range []string{note, res.Hint} {
		if said != "" {
			parts = append(parts, said)
		}
	}
	if res.Excerpt != "" && res.Excerpt != res.LogTail { // else the log below begins with it
		words := "What it printed last"
		if res.Exit.Reason == sandbox.Exited {
			words = "Where it failed"
		}
		parts = append(parts, words+":", quote.Fence(quote.Cut(r.o.Redact(res.Excerpt), 2*excerptMax, "\n…")))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// head is the command, and the title where GitHub does not show all of it.
func (r *Reporter) head(res Result) string {
	var words []string
	if res.Run != "" {
		words = append(words, quote.Code(r.o.Redact(res.Run)))
	}
	if shown := r.o.Redact(quote.Line(res.Summary)); len(shown) > titleMax {
		words = append(words, quote.Text(shown))
	}
	return strings.Join(words, ": ")
}

func facts(res Result) []string {
	list := []string{"**" + strings.ReplaceAll(string(res.Conclusion), "_", " ") + "**"}
	switch failed := res.Conclusion == Failure || res.Conclusion == TimedOut; {
	case res.Run == "": // no command of the policy's
	case res.Excused():
		list = append(list, "not held against this change")
	case res.Required:
		list = append(list, "required by the policy")
	case failed:
		list = append(list, "not required by the policy")
	}
	if res.Exit.Reason != "" {
		list = append(list, "in a sandbox")
	}
	if res.Duration > 0 {
		list = append(list, "took "+res.Duration.Round(10*time.Millisecond).String())
	}
	if res.Dir != "" {
		list = append(list, "in "+quote.Code(res.Dir))
	}
	switch n := len(res.Annotations); {
	case n == 1:
		list = append(list, "1 annotation")
	case n > 1:
		list = append(list, fmt.Sprintf("%d annotations", n))
	}
	if res.Near > 0 {
		list = append(list, fmt.Sprintf("%d of them on lines of this change", res.Near))
	}
	return list
}

// beside says what the check does on the base.
func (r *Reporter) beside(res Result) []string {
	b := res.Baseline
	if b == nil {
		return nil
	}
	there := fmt.Sprintf("On %s, at %.7s, ", quote.Code(b.Branch), b.Commit)
	switch {
	case b.Passes:
		return []string{there + "the same command passes: what fails came with this change, or comes and goes."}
	case !b.Held:
		return []string{there + "the same command fails in the same way: nothing that it says here is new."}
	case b.News == 0:
		return []string{there + "the same command fails too. Too much is said to tell what of it is new."}
	}
	text := strings.Join(b.New, "\n")
	if more := b.News - len(b.New); more > 0 {
		text += fmt.Sprintf("\n… and %d more", more)
	}
	return []string{there + "the same command fails too, but does not say:", quote.Fence(quote.Cut(r.o.Redact(text), excerptMax, "\n…"))}
}
