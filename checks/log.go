package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

const (
	logMax     = 60_000 // bytes of Result.LogTail; a Check Run's text may have 65,535
	excerptMax = 4_000
	lineMax    = 2_000
)

// cutLog begins a log of which parts are left out.
const cutLog = "… the "

// failureWords stand on the line at which a reader begins. Case matters: "0 errors" is no failure.
var failureWords = [][]byte{
	[]byte("--- FAIL"), []byte("FAIL"), []byte("panic: "), []byte("fatal error: "), []byte("fatal: "), []byte("error: "),
	[]byte("error["), []byte("Error: "), []byte("ERROR"), []byte("Traceback (most recent"), []byte("AssertionError"),
	[]byte("not ok "), []byte("not found"),
}

// firstFailure is the offset of the line at which a reader begins, or -1.
func firstFailure(log []byte) int {
	first := -1
	for _, w := range failureWords {
		end := len(log)
		if first >= 0 {
			end = first
		}
		if i := bytes.Index(log[:end], w); i >= 0 {
			first = i
		}
	}
	if first < 0 {
		return -1
	}
	return bytes.LastIndexByte(log[:first], '\n') + 1
}

// logTail is the log in at most limit bytes: all of it, or first the part around the first failure and then the end.
// at is the offset of a line that is known to tell of a failure, or -1.
func logTail(log []byte, at, limit int, redact func(string) string) string {
	if len(log) <= 4*limit {
		if whole := tidy(log, redact); len(whole) <= limit {
			return whole
		}
	}
	at = earliest(at, firstFailure(log))
	room := limit - limit/8
	var lead string
	if at >= 0 && at < len(log)-room {
		room = limit / 2
		start := linesBefore(log, at, 10, limit/8)
		part := quote.Cut(tidy(wholeLines(log[start:min(start+limit/2, len(log))]), redact), limit/2-200, " …")
		lead = fmt.Sprintf(cutLog+"log from byte %d, around its first failure:\n%s\n", start, part)
	}
	start := len(log) - min(room, len(log))
	start += bytes.IndexByte(log[start:], '\n') + 1
	mark := fmt.Sprintf(cutLog+"end of the log, from byte %d:\n", start)
	return lead + mark + suffix(tidy(log[start:], redact), limit-len(lead)-len(mark))
}

// wholeLines leaves out the last line of a piece, of which the end may be missing: a secret that is cut in two is harder to
// redact.
func wholeLines(piece []byte) []byte {
	if i := bytes.LastIndexByte(piece, '\n'); i > 0 {
		return piece[:i]
	}
	return piece
}

func earliest(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// excerpt is the part of the log that tells of the first failure; without one, its end.
func excerpt(log []byte, at int, redact func(string) string) string {
	at = earliest(at, firstFailure(log))
	if at < 0 {
		return suffix(tidy(log[max(len(log)-2*excerptMax, 0):], redact), excerptMax)
	}
	start := linesBefore(log, at, 3, excerptMax/4)
	return quote.Cut(tidy(wholeLines(log[start:min(start+2*excerptMax, len(log))]), redact), excerptMax, "\n…")
}

// linesBefore is the start of the line n lines before the one at at, or as many as lie within reach bytes.
func linesBefore(log []byte, at, n, reach int) int {
	start := at
	for range n {
		if start == 0 {
			break
		}
		line := bytes.LastIndexByte(log[:start-1], '\n') + 1
		if at-line > reach {
			break
		}
		start = line
	}
	return start
}

// suffix is the last at most n bytes of s, from the start of a line where there is one.
func suffix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = strings.ToValidUTF8(s[len(s)-n:], "")
	if _, rest, ok := strings.Cut(s, "\n"); ok {
		return rest
	}
	return s
}

// tidy makes a piece of a log fit to be read: redacted before anything is taken out of it, what a terminal would have
// overwritten or coloured resolved, nothing hidden, no endless lines.
func tidy(log []byte, redact func(string) string) string {
	lines := strings.Split(redact(string(stripANSI(log))), "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, "\r")
		if at := strings.LastIndexByte(l, '\r'); at >= 0 {
			l = l[at+1:] // a progress bar writes over itself
		}
		lines[i] = quote.Cut(quote.Clean(l), lineMax, " …")
	}
	return strings.Trim(redact(strings.Join(lines, "\n")), "\n")
}

// stripANSI removes terminal control sequences (ECMA-48: CSI, and OSC up to its terminator). It copies only when there is one.
func stripANSI(b []byte) []byte {
	if bytes.IndexByte(b, 0x1b) < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if b[i] != 0x1b {
			next := bytes.IndexByte(b[i:], 0x1b)
			if next < 0 {
				return append(out, b[i:]...)
			}
			out = append(out, b[i:i+next]...)
			i += next
			continue
		}
		i += sequence(b[i:])
	}
	return out
}

// sequence is the length of the control sequence at the start of b, never more than 256 and never across a line's end.
func sequence(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	for i := 2; i < min(len(b), 256); i++ {
		c := b[i]
		switch {
		case c == '\n':
			return i
		case b[1] == '[' && c >= 0x40 && c <= 0x7e, b[1] == ']' && c == 0x07:
			return i + 1
		case b[1] == ']' && c == '\\' && b[i-1] == 0x1b:
			return i + 1
		case b[1] == '(' || b[1] == ')':
			return 3
		case b[1] != '[' && b[1] != ']':
			return 2
		}
	}
	return min(len(b), 2)
}

// readable turns the output of `go test -json` back into the text that a person would have seen; another log stays as it is.
func readable(log []byte) []byte {
	if !bytes.HasPrefix(log, []byte(`{"`)) || !bytes.Contains(log[:min(len(log), 300)], []byte(`"Action":"`)) {
		return log
	}
	out := make([]byte, 0, len(log)/2)
	for line := range bytes.Lines(log) {
		var e event
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil {
			out = append(out, line...)
			continue
		}
		out = append(out, e.Output...)
	}
	return out
}
