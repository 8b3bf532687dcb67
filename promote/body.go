package promote

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// bodyMax keeps below the 65,536 characters that GitHub takes; in bytes, which is never more.
const bodyMax = 65_000

// Marker is the hidden first line by which a pull request of ours is found again. Nothing that others write can make one:
// their angle brackets are escaped.
type Marker struct{ Mission, Run, Manifest string }

var markerForm = regexp.MustCompile(`^<!-- sandpiper:mission ([a-z0-9-]+) run ([a-z0-9-]+) manifest (sha256:[0-9a-f]{64}) -->`)

func (m Marker) String() string {
	return fmt.Sprintf("<!-- sandpiper:mission %s run %s manifest %s -->", m.Mission, m.Run, m.Manifest)
}

// ParseMarker reads the marker of a pull request's body.
func ParseMarker(body string) (Marker, bool) {
	m := markerForm.FindStringSubmatch(strings.TrimLeft(body, " \r\n"))
	if m == nil {
		return Marker{}, false
	}
	return Marker{Mission: m[1], Run: m[2], Manifest: m[3]}, true
}

func (p *publication) marker() Marker {
	return Marker{Mission: p.req.Mission, Run: string(p.req.Run), Manifest: p.digest}
}

// body is what a reviewer reads. The lists in it are shortened, and say so, until all of it fits.
func (p *publication) body() string {
	for rows := 200; ; rows /= 2 {
		w := page{redact: p.Redact, rows: rows}
		fmt.Fprintf(&w.b, "%s\n", p.marker())
		p.asked(&w)
		p.said(&w)
		p.changed(&w)
		p.stands(&w)
		p.gates(&w)
		p.checked(&w)
		p.saw(&w)
		p.provenance(&w)
		p.findings(&w)
		p.goOn(&w)
		if p.filled != "" {
			w.printf("%s\nLeft to people: the bot ticks nothing.\n\n%s\n", templateHead, p.filled)
		}
		p.attach(&w)
		if s := p.Redact(w.b.String()); len(s) <= bodyMax || rows == 0 {
			return quote.Cut(s, bodyMax, "\n\n_truncated: more than GitHub takes_\n")
		}
	}
}

// envelopeMost keeps the manifest from taking the room of what people read. A longer one is in the bot's store.
const envelopeMost = 24_000

// attach puts the manifest at the end, folded up, for tools.
func (p *publication) attach(w *page) {
	if n := len(p.envelope); n > 0 && n <= envelopeMost && w.rows > 10 {
		w.printf("\n<details><summary>Manifest, for <code>sandpiper manifest verify</code></summary>\n\n```json\n%s\n```\n\n</details>\n", p.envelope)
	}
}

// page collects Markdown. Whatever others wrote goes through text or cell; both redact first.
type page struct {
	b      strings.Builder
	redact func(string) string
	rows   int // of each list
}

func (w *page) printf(format string, args ...any) { fmt.Fprintf(&w.b, format, args...) }

func (w *page) text(s string) string { return quote.Text(quote.Cut(w.redact(s), 1000, "…")) }

func (w *page) cell(s string) string { return quote.Cell(quote.Cut(w.redact(s), 300, "…")) }

// path is the name of a file as a code span. One that would not look like what it is, for control or hidden characters or
// bytes that are no text, is written with escapes.
func (w *page) path(name string) string {
	if quote.Line(name) != name {
		name = strconv.QuoteToASCII(name)
	}
	return w.cell(name)
}

// more says how much of a list is not shown.
func (w *page) more(all int, what string) {
	if all > w.rows {
		w.printf("\n_truncated: %d more %s; the manifest has them all_\n", all-w.rows, what)
	}
}

// draftMark begins the line by which the bot says, also to itself in a later round, that it made the pull request a draft.
const draftMark = "\n**This is a draft:** "

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// stands says on which commit the change stands, and what does not go together with the base branch.
func (p *publication) stands(w *page) {
	s := p.req.Staged
	if s.Note != "" {
		w.printf("\n> %s\n", w.text(s.Note))
	}
	if s.Merged() {
		w.printf("\nThe run started from %s. The base branch has moved since: this was merged onto %s, without a conflict.\n", w.cell(s.MergeBase), w.cell(s.Base))
	}
	if len(s.Conflicts) > 0 {
		w.printf("\n**It does not merge** with %s at %s. It stands on the commit that the run started from, %s, and nothing of it is left out. In conflict:\n\n", w.cell(p.req.Base), w.cell(s.Tip), w.cell(s.MergeBase))
		for i, path := range s.Conflicts {
			if i == w.rows {
				break
			}
			w.printf("- %s\n", w.path(path))
		}
		w.more(len(s.Conflicts), "conflicts")
		w.printf("\n`/sandpiper update` here sends the agent to bring both sides together.\n")
	}
	if len(s.Lost) > 0 {
		w.printf("\n**Lines that are newer than the run and that this takes away:**\n\n| file | line | |\n| --- | ---: | --- |\n")
		for i, l := range s.Lost {
			if i == w.rows {
				break
			}
			w.printf("| %s | %d | %s |\n", w.path(l.Path), l.Line, w.cell(l.Text))
		}
		w.more(len(s.Lost), "lines")
	}
}

// gates shows what people have to decide, and what they have decided.
func (p *publication) gates(w *page) {
	head := false
	for _, g := range p.req.Gates {
		if len(g.Found) == 0 {
			continue
		}
		if !head {
			w.printf("\n### What people have to decide\n\n| gate | found | |\n| --- | --- | --- |\n")
			head = true
		}
		state := "shown"
		switch {
		case g.Allowed != "":
			state = "allowed by " + w.cell(g.Allowed)
		case g.Holds(gates.Draft):
			state = "open: `/sandpiper allow " + g.Gate + "` lets it pass"
		}
		for i, f := range g.Found {
			if i == w.rows {
				break
			}
			at := ""
			if f.Path != "" {
				at = w.path(f.Path) + " "
			}
			if f.Line > 0 {
				at += fmt.Sprintf("line %d ", f.Line)
			}
			w.printf("| %s | %s%s | %s |\n", g.Gate, at, w.cell(f.Text), state)
		}
		if more := len(g.Found) + g.More - min(w.rows, len(g.Found)); more > 0 {
			w.printf("| %s | _truncated: %d more_ | |\n", g.Gate, more)
		}
	}
}

func (p *publication) checked(w *page) {
	w.printf("\n### How it was checked\n\n")
	if len(p.req.Checks) == 0 {
		w.printf("No check was run: none is configured and none was recognised.\n")
		return
	}
	switch tree := p.req.CheckedTree; {
	case tree == "":
		w.printf("By the repository's own commands, in a sandbox.\n")
	case tree == p.result.Manifest.Tree && p.req.Suggest:
		w.printf("By the repository's own commands, in a sandbox, on the head with all of this in it.\n")
	case tree == p.result.Manifest.Tree:
		w.printf("By the repository's own commands, in a sandbox, on exactly this tree.\n")
	default:
		w.printf("By the repository's own commands, in a sandbox, on tree %s, which is **not** the tree of this pull request: something was left out since.\n", w.cell(tree))
	}
	if !p.req.Suggest {
		w.printf("Each is a Check Run on the head, with its log and what it says of single lines.\n")
	}
	w.printf("\n| check | command | result | required | took | |\n| --- | --- | --- | --- | ---: | --- |\n")
	for i, c := range p.req.Checks {
		if i == w.rows {
			break
		}
		says := w.text(c.Summary)
		if c.Annotations > 0 {
			says += " · " + plural(c.Annotations, "annotation")
		}
		if to := link("details", c.URL); to != "" {
			says += " · " + to
		}
		w.printf("| %s | %s | %s | %s | %v | %s |\n", w.cell(c.Name), w.cell(c.Command), w.text(strings.ReplaceAll(c.Conclusion, "_", " ")), yes(c.Required), c.Duration.Round(100*time.Millisecond), says)
	}
	w.more(len(p.req.Checks), "checks")
}

var inLink = strings.NewReplacer(">", "%3E", "<", "%3C", " ", "%20", "|", "%7C", "\\", "%5C")

// link is a link to an address of our own making, or nothing when there is none.
func link(words, url string) string {
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		return ""
	}
	return fmt.Sprintf("[%s](<%s>)", words, inLink.Replace(quote.Line(url)))
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// said is the agent's own account, which nobody has checked.
func (p *publication) said(w *page) {
	if strings.TrimSpace(p.req.Said) == "" {
		return
	}
	w.printf("\n### What the agent says\n\nIts own words at its end. Nothing of them was checked:\n\n> %s\n", w.text(p.req.Said))
}

func (p *publication) saw(w *page) {
	w.printf("\n### What the agent could reach, and was given\n\nAgent: %s", w.cell(p.req.Agent))
	if p.req.AgentVersion != "" {
		w.printf(", by its own word %s", w.cell(p.req.AgentVersion))
	}
	w.printf(". It worked in a sandbox:\n\n")
	w.items(p.req.Reach, "items")
	w.printf("\nIt was given:\n\n")
	w.items(p.req.Given, "items")
	w.printf("\nWithheld from it:\n\n")
	w.items(p.req.Withheld, "items withheld")
}

func (w *page) items(list []Item, what string) {
	if len(list) == 0 {
		w.printf("- nothing\n")
	}
	for i, it := range list {
		if i == w.rows {
			break
		}
		what := w.cell(it.What)
		if to := link(what, it.URL); to != "" {
			what = to
		}
		w.printf("- %s", what)
		if it.Note != "" {
			w.printf(": %s", w.text(it.Note))
		}
		w.printf("\n")
	}
	if len(list) > w.rows {
		w.printf("- _truncated: %d more %s_\n", len(list)-w.rows, what)
	}
}

// provenance names the commits that it is made of, and where more is told.
func (p *publication) provenance(w *page) {
	m, started := p.result.Manifest, p.result.Manifest.MergeBase
	if f := p.req.FollowUp; f != nil {
		started = f.Head
	}
	w.printf("\n### Where it comes from\n\n| | |\n| --- | --- |\n")
	if started != m.Base {
		w.printf("| started from | %s |\n| base | %s on %s |\n", w.cell(started), w.cell(m.Base), w.cell(m.Branch))
	} else {
		w.printf("| started from | %s on %s |\n", w.cell(m.Base), w.cell(m.Branch))
	}
	w.printf("| tree | %s |\n| head | %s |\n| manifest | %s |\n| mission, run | %s, %s |\n",
		w.cell(m.Tree), w.cell(m.Head), w.cell(p.digest), w.cell(m.Mission), w.cell(string(m.Run)))
	if p.req.Took != "" {
		w.printf("| took | %s |\n", w.cell(p.req.Took))
	}
	if to := link("the mission, step by step", p.req.MissionURL); to != "" {
		w.printf("| more | %s |\n", to)
	}
}

// findings are what was seen at the boundary of the sandbox.
func (p *publication) findings(w *page) {
	if len(p.req.Findings) == 0 {
		return
	}
	w.printf("\n### What happened at the boundary\n\n| what | severity | outcome | evidence |\n| --- | --- | --- | --- |\n")
	for i, f := range p.req.Findings {
		if i == w.rows {
			break
		}
		w.printf("| %s | %s | %s | %s |\n", w.cell(f.Kind), w.text(f.Severity), w.text(f.Outcome), w.cell(f.Evidence))
	}
	w.more(len(p.req.Findings), "findings")
}

func (p *publication) goOn(w *page) {
	r := p.req
	w.printf("\n### How to go on\n\nReview it as you would a person's work, and merge or close it: Sandpiper neither approves nor merges.")
	if r.Approvals > 0 && r.Requester.Login != "" {
		others := ""
		if !r.OwnCounts {
			others = " other than " + w.text(r.Requester.Login) + ", who asked for this"
		}
		w.printf(" The check `sandpiper / review` waits for %s of exactly this head by people with write access%s, on every push anew.", plural(r.Approvals, "approval"), others)
	}
	w.printf("\n\nPeople with write access, in a comment with one command a line:\n\n| to | say |\n| --- | --- |\n" +
		"| have something changed | a review that requests changes, or `/sandpiper fix [words]` here |\n" +
		"| bring it up to a base branch that it does not merge with | `/sandpiper update` here |\n")
	if r.Issue > 0 {
		w.printf("| take another part of what the agent made | `/sandpiper promote only PATH…` or `/sandpiper drop PATH…` on #%d; `PATH:2` is one hunk |\n", r.Issue)
	}
	w.printf("| go on yourself | push to this branch: the bot then leaves it alone, until `/sandpiper continue` |\n" +
		"| end it | `/sandpiper discard`, which closes this, or close it |\n| see all commands | `/sandpiper help` |\n")
}
