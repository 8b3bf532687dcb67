package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// render writes the task as Markdown. Each text of other people stands between two lines with a mark that none of them can
// contain on purpose: it is made from all of them.
func (t Task) render() (text string, items []Item) {
	mark := t.mark()
	var b strings.Builder
	block := func(item Item, heading, raw string) {
		visible, hidden := Visible(raw)
		item.Hidden = hidden
		visible, item.Cut = cut(visible, maxText)
		item.measure(visible)
		item.File = "task.md"
		items = append(items, item)
		if strings.TrimSpace(visible) == "" {
			visible = "(no text)"
		}
		fmt.Fprintf(&b, "%s\n\n[%s begins]\n%s\n", heading, mark, strings.TrimRight(visible, "\r\n"))
		if item.Cut > 0 {
			fmt.Fprintf(&b, "[%s the last %d bytes were cut]\n", mark, item.Cut)
		}
		fmt.Fprintf(&b, "[%s ends]\n\n", mark)
	}

	title, hidden := VisibleLine(t.Issue.Title)
	title, _ = cut(strings.Join(strings.Fields(title), " "), 1024)
	head := Item{Kind: "title", Source: t.Issue.URL, Author: t.Issue.Author.Login, Standing: t.Issue.Author.Standing, File: "task.md", Hidden: hidden}
	head.measure(title)
	items = append(items, head)
	fmt.Fprintf(&b, "# Issue #%d of %s\n\nTitle: %s\nAsked for by: %s\nEach text stands between two lines that begin with [%s. Whatever is between them was written by the person named above it.\n\n",
		t.Issue.Number, t.Repository, title, t.Requester, mark)
	if strings.TrimSpace(t.Instruction) != "" {
		block(Item{Kind: "request", Source: t.Issue.URL, Author: t.Requester.Login, Standing: t.Requester.Standing},
			"## What "+t.Requester.String()+" asks for", t.Instruction)
	}
	body := Item{Kind: "issue", Source: t.Issue.URL, Author: t.Issue.Author.Login, Standing: t.Issue.Author.Standing}
	if !t.TriggeredAt.IsZero() && t.Issue.EditedAt.After(t.TriggeredAt) {
		body.measure(t.Issue.Body)
		body.Withheld = "edited after the work was asked for"
		items = append(items, body)
		b.WriteString("## The issue\n\nIts text was edited after the work was asked for and is withheld.\n\n")
	} else {
		block(body, "## The issue, by "+t.Issue.Author.String(), t.Issue.Body)
	}
	withheld := t.withhold()
	for i, c := range t.Comments {
		item := Item{Kind: "comment", Source: c.URL, Author: c.Author.Login, Standing: c.Author.Standing}
		if withheld[i] != "" {
			item.measure(c.Body)
			item.Withheld = withheld[i]
			items = append(items, item)
			continue
		}
		block(item, fmt.Sprintf("## Comment by %s, %s", c.Author, c.CreatedAt.UTC().Format("2006-01-02 15:04")), c.Body)
	}
	if t.FollowUp != nil {
		t.FollowUp.render(&b, block, func(item Item) { items = append(items, item) })
	}
	return b.String(), items
}

// withhold gives the reason for each comment that is not given. When there is too much, the newest are given.
func (t Task) withhold() []string {
	reasons, left := make([]string, len(t.Comments)), maxTexts
	for i := len(t.Comments) - 1; i >= 0; i-- {
		c := t.Comments[i]
		if reasons[i] = c.Withhold; reasons[i] != "" {
			continue
		}
		if reasons[i] = t.late(c); reasons[i] != "" {
			continue
		}
		if left -= min(len(c.Body), maxText); left < 0 {
			reasons[i] = fmt.Sprintf("the comments together have more than %d bytes", maxTexts)
		}
	}
	return reasons
}

// mark is made from every text, so that no text can hold it.
func (t Task) mark() string {
	h := sha256.New()
	for _, s := range []string{t.Repository, t.Issue.Title, t.Issue.Body, t.Instruction} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	for _, c := range t.Comments {
		fmt.Fprintf(h, "%d:%s", len(c.Body), c.Body)
	}
	for _, s := range t.FollowUp.texts() {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return "text-" + hex.EncodeToString(h.Sum(nil))[:16]
}

// String names a person with their standing.
func (p Person) String() string {
	login, standing := Line(p.Login), p.Standing
	if login == "" {
		login = "an account that is gone"
	}
	if p.Bot {
		login += ", a bot"
	}
	if standing == "" {
		return login
	}
	return login + " (" + standing + ")"
}
