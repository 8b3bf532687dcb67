package egress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// maxHead is the most that the request line and the headers of one request may have together.
const maxHead = 32 << 10

// head is a request line with its headers, as they were sent. What net/http would forgive, and another server would read in
// another way, was refused.
type head struct {
	length                int // bytes, with the empty line
	method, target, proto string
	host                  string // the Host header; empty: none
	expects               bool   // 100-continue
	body                  bool   // there is a length, or chunks
}

// peekHead reads to the empty line and leaves everything in r, whose size is maxHead. io.EOF: the client has nothing more to ask.
func peekHead(r *bufio.Reader) (*head, error) {
	for seen := 0; ; {
		raw, err := r.Peek(seen + 1)
		if err == nil {
			raw, _ = r.Peek(r.Buffered())
		}
		if end := bytes.Index(raw, []byte("\r\n\r\n")); end >= 0 {
			return parseHead(raw[:end+4])
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, refuse(BadRequest, "the headers are too long")
		case errors.Is(err, io.EOF) && len(raw) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case bytes.HasPrefix(raw, []byte("\n")), bytes.Contains(raw, []byte("\n\n")):
			return nil, refuse(BadRequest, "lines end with CR LF")
		}
		seen = len(raw)
	}
}

// parseHead takes RFC 9112 at its word: lines end with CR LF and have no other control character, names of headers are tokens
// right before the colon, nothing is folded, the length of the body is said once and in one way (section 6.3: what says it twice
// may be an attempt to smuggle).
func parseHead(raw []byte) (*head, error) {
	lines := strings.Split(strings.TrimSuffix(string(raw), "\r\n\r\n"), "\r\n")
	h := &head{length: len(raw)}
	words := strings.Split(lines[0], " ")
	if len(words) != 3 || !isToken(words[0]) || words[1] == "" || words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0" ||
		strings.ContainsFunc(lines[0], isControl) || strings.Contains(lines[0], "\t") {
		return nil, refuse(BadRequest, "the request line is malformed")
	}
	h.method, h.target, h.proto = words[0], words[1], words[2]
	lengths, hosts := 0, 0
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) || strings.ContainsFunc(line, isControl) {
			return nil, refuse(BadRequest, "a header is malformed")
		}
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "host":
			hosts++
			h.host = value
		case "expect":
			h.expects = strings.EqualFold(value, "100-continue")
		case "transfer-encoding":
			lengths++
			if !strings.EqualFold(value, "chunked") || h.proto == "HTTP/1.0" {
				return nil, refuse(BadRequest, "a transfer encoding that is not served")
			}
		case "content-length":
			lengths++
			if value == "" || len(value) > 18 || strings.Trim(value, "0123456789") != "" {
				return nil, refuse(BadRequest, "the content length is no number")
			}
		}
	}
	if lengths > 1 {
		return nil, refuse(BadRequest, "the length of the body is said more than once")
	}
	if hosts > 1 {
		return nil, refuse(BadRequest, "more than one Host header")
	}
	h.body = lengths > 0
	return h, nil
}

// isControl is true for what may not be in a header. A tab may be.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func isToken(s string) bool {
	const others = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(others, r))
	})
}
