package redact

import (
	"encoding/base64"
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
	// gram is how many bytes are looked up at once: those of a text that begin at each third byte among those of a secret
	// that begin at each fourth. As 3 and 4 have no common divisor, one of any 12 grams in a row is both, and a part of
	// fragment bytes holds 13. Looking at all of a secret's costs memory, looking at all of a text's time.
	gram         = 8
	textStride   = 3
	secretStride = 4
)

// Redactor takes secrets out of text. It may be used by many goroutines.
type Redactor struct {
	mu     sync.RWMutex
	owners map[string]int // value -> how often it was added
	set    *needles
}

// New returns a Redactor that knows no value yet; it takes out what looks like a credential all the same.
func New() *Redactor {
	return &Redactor{owners: map[string]int{}, set: newNeedles()}
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
	before := r.owners[value]
	switch r.owners[value] = before + by; {
	case before == 0:
		r.set.add(value)
	case before+by == 0:
		delete(r.owners, value)
		r.set.remove(value)
	}
}

// clean passes a part of a stream on.
func (r *Redactor) clean(s *stream, out, text []byte, last bool) (written, rest []byte) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return s.next(r.set, out, text, last)
}

// String returns text without secrets.
func (r *Redactor) String(text string) string { return string(r.Bytes([]byte(text))) }

// Bytes returns text without secrets. The text is not changed.
func (r *Redactor) Bytes(text []byte) []byte {
	var s stream
	out, _ := r.clean(&s, nil, text, true)
	return out
}

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
