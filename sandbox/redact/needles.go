package redact

import (
	"bytes"
	"encoding/binary"
)

// needles are the forms in which the known values may appear. A bot knows thousands, each of them for an hour, so that adding
// and removing one costs what it is long, however many there are, and it takes some bytes for each of its own.
type needles struct {
	list   []needle
	free   []int32          // places in list
	known  map[string]int32 // form -> place in list
	heads  map[uint32]int32 // hash of a gram -> first entry in parts; 0: none
	parts  []part           // from 1
	vacant int32            // first unused entry in parts
	seen   [1 << 16]uint32  // a cheap first answer: how many grams begin their hash like this
	short  int              // how many needles are found in whole
}

type needle struct {
	text   []byte
	owners int // values with this form; 0: the place is free
}

// part is one of the grams that a needle of at least fragment bytes is known by, in a list of those with the same hash.
type part struct{ needle, at, next int32 }

func newNeedles() *needles {
	return &needles{known: map[string]int32{}, heads: map[uint32]int32{}, parts: make([]part, 1)}
}

func hash(gram []byte) uint32 {
	return uint32(binary.LittleEndian.Uint64(gram) * 0x9E3779B97F4A7C15 >> 32)
}

// add and remove are called in turns for a value.
func (n *needles) add(value string) {
	for form := range distinct(forms(value)) {
		if i, ok := n.known[form]; ok {
			n.list[i].owners++
			continue
		}
		i := int32(len(n.list))
		if last := len(n.free) - 1; last >= 0 {
			i, n.free = n.free[last], n.free[:last]
		} else {
			n.list = append(n.list, needle{})
		}
		n.known[form] = i
		n.list[i] = needle{text: []byte(form), owners: 1}
		n.link(i)
	}
}

func (n *needles) remove(value string) {
	for form := range distinct(forms(value)) {
		i := n.known[form]
		if n.list[i].owners--; n.list[i].owners > 0 {
			continue
		}
		n.unlink(i)
		n.list[i] = needle{}
		n.free = append(n.free, i)
		delete(n.known, form)
	}
}

func distinct(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

func (n *needles) link(i int32) {
	text := n.list[i].text
	if len(text) < fragment {
		n.short++
		return
	}
	for at := 0; at+gram <= len(text); at += secretStride {
		h := hash(text[at:])
		p := n.vacant
		if p == 0 {
			p = int32(len(n.parts))
			n.parts = append(n.parts, part{})
		} else {
			n.vacant = n.parts[p].next
		}
		n.parts[p] = part{i, int32(at), n.heads[h]}
		n.heads[h] = p
		n.seen[h>>16]++
	}
}

func (n *needles) unlink(i int32) {
	text := n.list[i].text
	if len(text) < fragment {
		n.short--
		return
	}
	for at := 0; at+gram <= len(text); at += secretStride {
		h := hash(text[at:])
		before, p := int32(0), n.heads[h]
		for n.parts[p].needle != i || n.parts[p].at != int32(at) {
			before, p = p, n.parts[p].next
		}
		switch next := n.parts[p].next; {
		case before != 0:
			n.parts[before].next = next
		case next != 0:
			n.heads[h] = next
		default:
			delete(n.heads, h)
		}
		n.parts[p] = part{next: n.vacant}
		n.vacant = p
		n.seen[h>>16]--
	}
}

// span is a part of the text, from and to exclusive.
type span struct{ from, to int }

// find lists where the text holds a known value or a part of one; unsorted, overlapping.
func (n *needles) find(text []byte) []span {
	var found []span
	if n.short > 0 {
		found = n.findShort(text)
	}
	if len(n.heads) == 0 {
		return found
	}
	for at := 0; at+gram <= len(text); at += textStride {
		h := hash(text[at:])
		if n.seen[h>>16] == 0 {
			continue
		}
		for p := n.heads[h]; p != 0; p = n.parts[p].next {
			i := int(n.parts[p].at)
			needle := n.list[n.parts[p].needle].text
			if !bytes.Equal(needle[i:i+gram], text[at:at+gram]) {
				continue
			}
			from, to := at, at+gram
			for i := i; i > 0 && from > 0 && needle[i-1] == text[from-1]; i-- {
				from--
			}
			for i := i + gram; i < len(needle) && to < len(text) && needle[i] == text[to]; i++ {
				to++
			}
			if to-from >= fragment {
				found = append(found, span{from, to})
			}
		}
	}
	return found
}

func (n *needles) findShort(text []byte) (found []span) {
	for _, needle := range n.list {
		if needle.owners == 0 || len(needle.text) >= fragment {
			continue
		}
		for at := 0; ; at++ {
			i := bytes.Index(text[at:], needle.text)
			if i < 0 {
				break
			}
			at += i
			found = append(found, span{at, at + len(needle.text)})
		}
	}
	return found
}

// tail is the length of the longest end of the text that is a part of a known value: what comes next may complete it.
func (n *needles) tail(text []byte) int {
	longest := 0
	for _, needle := range n.list {
		most := min(len(needle.text), len(text))
		// Every end of a part is a part, so the first length that is none ends the search.
		for longest < most && bytes.Contains(needle.text, text[len(text)-longest-1:]) {
			longest++
		}
	}
	return longest
}
