package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// Receipt lists all that an agent was given, and what was withheld from it.
type Receipt struct {
	Items []Item `json:"items"`
}

// Item is one text that the agent was given, or that was withheld.
type Item struct {
	Kind     string   `json:"kind"`             // title, issue, comment, instruction of the requester: request; files: instructions, skills, specs, docs
	Source   string   `json:"source"`           // address of the text at GitHub, or path in the repository at the base commit
	Author   string   `json:"author,omitempty"` // login; empty for files, and for an account that is gone
	Standing string   `json:"standing,omitempty"`
	File     string   `json:"file,omitempty"` // where it lies below /sandpiper; empty: withheld
	SHA256   string   `json:"sha256"`         // hex, of the text as given, or as it was withheld
	Bytes    int      `json:"bytes"`
	Cut      int      `json:"cut,omitempty"`      // bytes at the end that were left out
	Withheld string   `json:"withheld,omitempty"` // the reason
	Hidden   []Hidden `json:"hidden,omitempty"`   // what a reader of the page would not have seen
}

func (i *Item) measure(text string) {
	sum := sha256.Sum256([]byte(text))
	i.SHA256, i.Bytes = hex.EncodeToString(sum[:]), len(text)
}

// forAgent is the receipt without samples of hidden text, which the agent must not read in it either.
func (r Receipt) forAgent() Receipt {
	out := Receipt{Items: slices.Clone(r.Items)}
	for i, item := range out.Items {
		out.Items[i].Hidden = slices.Clone(item.Hidden)
		for j := range out.Items[i].Hidden {
			out.Items[i].Hidden[j].Sample = ""
		}
	}
	return out
}

// Given counts the items that the agent has.
func (r Receipt) Given() int {
	n := 0
	for _, i := range r.Items {
		if i.Withheld == "" {
			n++
		}
	}
	return n
}

// Notes are lines for people, each one line, about what is not as they might think: text that was withheld, cut, or hidden.
func (r Receipt) Notes() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, Line(fmt.Sprintf(format, args...))) }
	for _, i := range r.Items {
		what := i.Kind + " " + i.Source
		if i.Author != "" {
			what += " by " + i.Author
		}
		if i.Withheld != "" {
			note("%s: withheld, %s", what, i.Withheld)
			continue
		}
		if i.Cut > 0 {
			note("%s: the last %d bytes were cut", what, i.Cut)
		}
		for _, h := range i.Hidden {
			verb := "taken out"
			if h.Kept {
				verb = "left in"
			}
			note("%s: %s (%d bytes), not seen on the page, %s: %s", what, h.Kind, h.Bytes, verb, h.Sample)
		}
	}
	return notes
}
