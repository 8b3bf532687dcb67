package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape writes what a terminal, a log or a build service could act on so that a person sees it: control characters,
// characters that are not drawn or turn the direction of the text, and bytes that are not UTF-8. kept stays as it is.
func escape(s, kept string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case strings.ContainsRune(kept, r) && r != utf8.RuneError:
			b.WriteString(s[:n])
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20, r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case !drawn(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case !drawn(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func drawn(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// name shows a path or other short text on one line. A backslash of its own is doubled, so that no two names look the same.
func name(s string) string { return escape(strings.ReplaceAll(s, `\`, `\\`), "") }

// safeWriter escapes what passes through it, line by line. Close writes the rest.
type safeWriter struct {
	w    io.Writer
	rest []byte
}

// longest line that is kept together: a character that is split over two writes is shown whole if it is in one line.
const longestLine = 1 << 16

func (s *safeWriter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	end := bytes.LastIndexByte(s.rest, '\n') + 1
	if end == 0 && len(s.rest) > longestLine {
		end = len(s.rest)
	}
	if _, err := io.WriteString(s.w, escape(string(s.rest[:end]), "\n\t")); err != nil {
		return 0, err
	}
	s.rest = append(s.rest[:0], s.rest[end:]...)
	return len(p), nil
}

func (s *safeWriter) Close() error {
	_, err := io.WriteString(s.w, escape(string(s.rest), "\n\t"))
	s.rest = nil
	return err
}

// writeText copies text that was made in a sandbox, escaped unless raw.
func writeText(w io.Writer, raw bool, write func(io.Writer) error) error {
	if raw {
		return write(w)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	safe := &safeWriter{w: out}
	if err := write(safe); err != nil {
		return err
	}
	if err := safe.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// writeJSON writes v indented. Names made in a sandbox may be in it, so that what is not drawn is escaped here too.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case r == '\n' || r < 0x7f || drawn(r):
			out.WriteRune(r)
		case r > 0xffff: // as JSON has it: two halves
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
