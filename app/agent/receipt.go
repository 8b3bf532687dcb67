package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Receipt lists all that an agent was given, and what was withheld from it.
type Receipt struct {
	Items []Item `json:"items"`
}

// Item is one text that the agent was given, or that was withheld.
type Item struct {
	Kind     string   `json:"kind"`             // title, issue, comment, instruction of the requester: request; of a follow-up: hunk, thread, check, sides; files: instructions, skills, specs, docs
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
