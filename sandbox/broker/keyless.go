package broker

import (
	"bytes"
	"io"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// shortestKey is the shortest key that is taken out of answers: those of the vendors have 39 characters and more, and a model of one's
// own often takes some word for one.
const shortestKey = 12

// keyless is a text without the key.
func keyless(text string, key redact.Secret) string {
	if len(key.Reveal()) < shortestKey {
		return text
	}
	return strings.ReplaceAll(text, key.Reveal(), redact.Mark)
}

// keyFilter passes an answer on without the key: gateways and servers in a mode for finding errors repeat the headers that they got.
// It takes out nothing else, unlike a Redactor, because a model's answer is work and no log. It holds back what may be the
// beginning of the key; Close writes that.
type keyFilter struct {
	w         io.Writer
	key, held []byte
}

func newKeyFilter(w io.Writer, key redact.Secret) *keyFilter {
	f := &keyFilter{w: w}
	if len(key.Reveal()) >= shortestKey {
		f.key = []byte(key.Reveal())
	}
	return f
}

func (f *keyFilter) Write(p []byte) (int, error) {
	text := p
	if len(f.held) > 0 {
		text = append(f.held, p...)
	}
	if len(f.key) > 0 {
		text = bytes.ReplaceAll(text, f.key, []byte(redact.Mark))
	}
	end := len(text) - f.begun(text)
	_, err := f.w.Write(text[:end])
	f.held = bytes.Clone(text[end:])
	return len(p), err
}

// begun is how many bytes at the end of a text are the beginning of the key.
func (f *keyFilter) begun(text []byte) int {
	for n := min(len(f.key)-1, len(text)); n > 0; n-- {
		if bytes.HasPrefix(f.key, text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

func (f *keyFilter) Close() error {
	_, err := f.w.Write(f.held)
	return err
}
