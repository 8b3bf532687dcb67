package redact

import (
	"bytes"
	"cmp"
	"io"
	"slices"
)

// most is how much a stream holds back at worst. Text in which the beginning of one secret overlaps the next without
// end would otherwise never be written.
const most = 1 << 16

// stream is what has to be remembered of the text before: with which characters the secret goes on that was marked
// last, when it was too long to be held back to its end.
type stream struct{ going func(byte) bool }

// next appends to out the text without secrets and returns it, with what of the text has to be presented again in front
// of what follows. Unless last, that is what may turn out to be the beginning of a secret.
func (s *stream) next(n *needles, out, text []byte, last bool) (written, rest []byte) {
	if s.going != nil {
		for len(text) > 0 && s.going(text[0]) {
			text = text[1:]
		}
		if len(text) == 0 {
			return out, nil
		}
		s.going = nil
	}
	found, tail, open := shapes(text)
	found = append(found, n.find(text)...)
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.from, b.from) })

	end := len(text)
	if !last {
		end = settled(found, min(tail, len(text)-n.tail(text)))
		if end < len(text)-most {
			end, s.going = len(text), open
		}
	}
	at := 0
	for i := 0; i < len(found) && found[i].from < end; i++ {
		secret := found[i]
		if secret.to <= at {
			continue
		}
		if secret.from >= at {
			out = append(append(out, text[at:secret.from]...), Mark...)
		}
		at = secret.to
	}
	return append(out, text[at:end]...), text[end:]
}

// settled moves end in front of every secret that reaches over it: found is sorted by the beginning.
func settled(found []span, end int) int {
	for i := len(found) - 1; i >= 0; i-- {
		if found[i].from < end && end < found[i].to {
			end = found[i].from
		}
	}
	return end
}

// Writer returns a writer that passes text on to w without secrets, also when one is split over several writes. It
// holds back only what may be the beginning of a secret; Close writes that too. Close does not close w.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return &writer{r: r, w: w} }

type writer struct {
	r      *Redactor
	w      io.Writer
	stream stream
	held   []byte
	out    []byte
	err    error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	text := p
	if len(w.held) > 0 {
		text = append(w.held, p...)
	}
	w.flush(text, false)
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close writes what was held back.
func (w *writer) Close() error {
	if w.err == nil {
		w.flush(bytes.Clone(w.held), true)
	}
	if w.err == io.ErrClosedPipe {
		return nil
	}
	err := w.err
	w.err = io.ErrClosedPipe
	return err
}

func (w *writer) flush(text []byte, last bool) {
	var rest []byte
	w.out, rest = w.r.clean(&w.stream, w.out[:0], text, last)
	w.held = append(w.held[:0:0], rest...)
	if len(w.out) > 0 {
		_, w.err = w.w.Write(w.out)
	}
}
