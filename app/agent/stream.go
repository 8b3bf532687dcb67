package agent

import (
	"bytes"
	"io"
)

// longest is how much of one line is read. What an agent prints beyond that on one line is left out; the log has it.
const longest = 1 << 20

// Stream feeds a Parser from a log, in pieces of any size, and hands on the events. It keeps at most one line.
type Stream struct {
	parser Parser
	emit   func(Event)
	line   []byte
	skip   bool // the rest of this line is left out
}

var _ io.Writer = (*Stream)(nil)

// NewStream makes a stream; emit may be nil.
func NewStream(p Parser, emit func(Event)) *Stream {
	if emit == nil {
		emit = func(Event) {}
	}
	return &Stream{parser: p, emit: emit}
}

// Write never fails.
func (s *Stream) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		if !s.skip {
			s.line = append(s.line, piece[:min(len(piece), longest-len(s.line))]...)
			s.skip = len(s.line) >= longest
		}
		if end < 0 {
			break
		}
		s.Flush()
		p = p[end+1:]
	}
	return n, nil
}

// Flush hands on a last line without its end.
func (s *Stream) Flush() {
	line := bytes.TrimRight(s.line, "\r")
	s.line, s.skip = s.line[:0], false
	if len(line) == 0 {
		return
	}
	for _, e := range s.parser.Line(line) {
		s.emit(e)
	}
}
