package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"
)

const (
	// fragment is the shortest part of a longer secret that is taken out. An agent told to post a credential "without
	// its first characters" would pass a redactor that knows whole values only.
	fragment = 20
	// shortest is the shortest secret that is looked for; less would take ordinary words out of the text.
	shortest = 6
	// gram is how many bytes are looked up at once, and stride how far apart: every part of fragment bytes holds a
	// whole gram that begins at a multiple of stride, so that only each 13th position of the text is looked at.
	gram   = 8
	stride = fragment - gram + 1
)

// Redactor takes secrets out of text. It may be used by many goroutines.
type Redactor struct {
	mu     sync.RWMutex
	owners map[string]int // value -> how often it was added
	set    *needles       // replaced as a whole, so that a reader may keep the one it began with
}

// New returns a Redactor that knows no value yet; it takes out what looks like a credential all the same.
func New() *Redactor {
	return &Redactor{owners: map[string]int{}, set: compile(nil)}
}

// Add makes r take s out of what passes through it, as it is, escaped for URLs, in hexadecimal, and inside base64 at any
// position (as in an Authorization header). Values of less than 6 bytes are not looked for, those of less than 20 only
// in whole. The function it returns takes one Add back; calling it again does nothing.
func (r *Redactor) Add(s Secret) (forget func()) {
	if len(s.value) < shortest {
		return func() {}
	}
	r.count(s.value, 1)
	return sync.OnceFunc(func() { r.count(s.value, -1) })
}

func (r *Redactor) count(value string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.owners)
	if r.owners[value] += by; r.owners[value] == 0 {
		delete(r.owners, value)
	}
	if len(r.owners) == before {
		return
	}
	values := make([]string, 0, len(r.owners))
	for v := range r.owners {
		values = append(values, v)
	}
	slices.Sort(values)
	r.set = compile(values)
}

func (r *Redactor) needles() *needles {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.set
}

// String returns text without secrets.
func (r *Redactor) String(text string) string { return string(r.Bytes([]byte(text))) }

// Bytes returns text without secrets. The text is not changed.
func (r *Redactor) Bytes(text []byte) []byte {
	var s stream
	out, _ := s.next(r.needles(), nil, text, true)
	return out
}

// needles are the forms in which the known values may appear.
type needles struct {
	long  [][]byte             // of at least fragment bytes: found by parts
	short [][]byte             // found in whole
	grams map[uint64][]place   // where the grams of the long ones are
	seen  [1 << 16 / 64]uint64 // a cheap first answer: no gram with this hash
	all   [][]byte             // long and short
}

type place struct{ needle, at int }

func compile(values []string) *needles {
	n := &needles{grams: map[uint64][]place{}}
	known := map[string]bool{}
	for _, value := range values {
		for _, form := range forms(value) {
			if known[form] {
				continue
			}
			known[form] = true
			if len(form) < fragment {
				n.short = append(n.short, []byte(form))
			} else {
				n.long = append(n.long, []byte(form))
			}
		}
	}
	for i, needle := range n.long {
		for at := 0; at+gram <= len(needle); at++ {
			g := binary.LittleEndian.Uint64(needle[at:])
			n.grams[g] = append(n.grams[g], place{i, at})
			h := hash(g)
			n.seen[h/64] |= 1 << (h % 64)
		}
	}
	n.all = slices.Concat(n.long, n.short)
	return n
}

func hash(g uint64) uint64 { return g * 0x9E3779B97F4A7C15 >> 48 }

// forms lists how value is spelled by what people and programs do to it.
func forms(value string) []string {
	out := []string{value, url.QueryEscape(value), url.PathEscape(value), hex.EncodeToString([]byte(value)),
		strings.ToUpper(hex.EncodeToString([]byte(value))), strings.ReplaceAll(value, "\n", `\n`)}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// Base64 of a text that holds the value: it looks one of three ways, by how many bytes come before. The
		// characters at both ends also depend on the neighbours and are left away.
		for before := range 3 {
			coded := enc.EncodeToString(slices.Concat(make([]byte, before), []byte(value)))
			first := (before*8 + 5) / 6
			last := (before + len(value)) * 8 / 6
			if last-first >= gram {
				out = append(out, coded[first:last])
			}
		}
	}
	return out
}

// span is a part of the text, from and to exclusive.
type span struct{ from, to int }

// find lists where the text holds a known value or a part of one; unsorted, overlapping.
func (n *needles) find(text []byte) []span {
	var found []span
	for _, needle := range n.short {
		for at := 0; ; at++ {
			i := bytes.Index(text[at:], needle)
			if i < 0 {
				break
			}
			at += i
			found = append(found, span{at, at + len(needle)})
		}
	}
	if len(n.long) == 0 {
		return found
	}
	for at := 0; at+gram <= len(text); at += stride {
		g := binary.LittleEndian.Uint64(text[at:])
		h := hash(g)
		if n.seen[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for _, p := range n.grams[g] {
			needle := n.long[p.needle]
			from, to := at, at+gram
			for i := p.at; i > 0 && from > 0 && needle[i-1] == text[from-1]; i-- {
				from--
			}
			for i := p.at + gram; i < len(needle) && to < len(text) && needle[i] == text[to]; i++ {
				to++
			}
			if to-from >= fragment {
				found = append(found, span{from, to})
			}
		}
	}
	return found
}

// tail is the length of the longest end of the text that is a part of a known value: what comes next may complete it.
func (n *needles) tail(text []byte) int {
	longest := 0
	for _, needle := range n.all {
		most := min(len(needle), len(text))
		// Every end of a part is a part, so the first length that is none ends the search.
		for longest < most && bytes.Contains(needle, text[len(text)-longest-1:]) {
			longest++
		}
	}
	return longest
}
