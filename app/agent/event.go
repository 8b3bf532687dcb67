package agent

import (
	"strings"
	"unicode/utf8"
)

// Kind says what an Event is about.
type Kind string

// The kinds of event.
const (
	Progress Kind = "progress" // a line for people
	Tool     Kind = "tool"     // a tool was used: Tool and Text, such as Bash and the command
	Text     Kind = "text"     // the agent said something
	Cost     Kind = "cost"     // Usage so far
	Failure  Kind = "error"    // something went wrong; the agent may try again
	Done     Kind = "done"     // the agent says that it is at its end
)

// Event is one thing that an agent's output told. All of it is the agent's word.
type Event struct {
	Kind   Kind   `json:"kind"`
	Text   string `json:"text,omitempty"`   // one line, at most 500 bytes, without control characters
	Tool   string `json:"tool,omitempty"`   // for Tool
	Status int    `json:"status,omitempty"` // HTTP status of the model's API, for Failure
	Usage  Usage  `json:"usage,omitzero"`   // for Cost: the sum so far
}

// Usage is what a run has used, as the agent's command line reports it. Zero is unknown: not all of them say.
type Usage struct {
	Dollars float64 `json:"dollars,omitempty"`
	Input   int64   `json:"input,omitempty"` // tokens, cached ones too
	Output  int64   `json:"output,omitempty"`
	Turns   int     `json:"turns,omitempty"` // answers of the model
}

// String is the event as one line of progress.
func (e Event) String() string {
	switch e.Kind {
	case Tool:
		return strings.TrimSpace(e.Tool + " " + e.Text)
	case Failure:
		return "error: " + e.Text
	case Cost, Done:
		return ""
	}
	return e.Text
}

const maxLine = 500

// Line makes any bytes into one line for people: no escape sequences, control or invisible characters, at most 500 bytes.
func Line(s string) string { return clean(s, maxLine) }

// clean is Line with another bound. It looks at a bounded piece of s only.
func clean(s string, limit int) string {
	if len(s) > 8*limit {
		s = s[:8*limit]
	}
	var b strings.Builder
	space := false
	for i := 0; i < len(s); {
		if n := escape(s[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		text := s[i : i+n]
		i += n
		switch {
		case r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029:
			space = b.Len() > 0
			continue
		case r == utf8.RuneError && n == 1:
			text = "\uFFFD"
		case invisible(r) != "" && r != 0x200D && r != 0xFE0F:
			continue
		}
		if space {
			text, space = " "+text, false
		}
		if b.Len()+len(text) > limit-len("…") {
			b.WriteString("…")
			break
		}
		b.WriteString(text)
	}
	return b.String()
}

// escape is the length of a terminal's control sequence (ECMA-48: ESC [ … letter, ESC ] … BEL or ESC \); 0: none is here.
func escape(s string) int {
	if len(s) < 2 || s[0] != 0x1b {
		return 0
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s) && i < 64; i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
	case ']':
		for i := 2; i < len(s) && i < 1024; i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
		}
	}
	return 2
}
