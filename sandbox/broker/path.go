package broker

import (
	"net/http"
	"strings"
)

// plainPath says whether the path of a request is its own only spelling: another server could read %2e%2e, //, a backslash or a
// semicolon in another way than we do (CVE-2021-41773 is one of many).
func plainPath(r *http.Request) bool {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if path != r.URL.Path || r.URL.RawPath != "" || r.URL.Fragment != "" || len(path) > 1024 {
		return false
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if segment == "" && path != "/" || segment == "." || segment == ".." {
			return false
		}
		for i := range len(segment) {
			if !isPlain(segment[i]) && segment[i] != ':' {
				return false
			}
		}
	}
	return true
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// match compares a path with a template and gives what stood for its {names}.
func match(template, path string) (map[string]string, bool) {
	params := map[string]string{}
	for {
		before, rest, more := strings.Cut(template, "{")
		if !more {
			return params, path == template
		}
		name, after, _ := strings.Cut(rest, "}")
		tail, ok := strings.CutPrefix(path, before)
		if !ok {
			return nil, false
		}
		n := 0
		for n < len(tail) && isPlain(tail[n]) {
			n++
		}
		if n == 0 || n > 128 {
			return nil, false
		}
		params[name], path, template = tail[:n], tail[n:], after
	}
}

// plain makes a client's text fit for a record: at most n bytes, none that means something to a terminal or a log.
func plain(s string, n int) string {
	cut := len(s) > n
	if cut {
		s = s[:n]
	}
	s = strings.Map(func(r rune) rune {
		if r < 0x21 || r > 0x7e || r == '"' || r == '\\' || r == '<' || r == '>' || r == '`' {
			return '?'
		}
		return r
	}, s)
	if cut {
		s += "..."
	}
	return s
}
