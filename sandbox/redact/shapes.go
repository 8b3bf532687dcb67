package redact

import "bytes"

// least is how many characters must follow the prefix of a token, so that a mere mention of "ghs_" stays readable.
const least = 10

// shapes finds what looks like a credential whoever it belongs to: GitHub's tokens (gh and a letter, an underscore;
// github_pat_) and private keys in PEM form. Since 2026 an installation token may be ghs_<number>_<JWT> with about 520
// characters, so dots, dashes and any length belong to it.
//
// Where one reaches the end of the text, or may begin there, open says with which characters it would go on and tail
// where it begins; otherwise tail is the length of the text.
func shapes(text []byte) (found []span, tail int, open func(byte) bool) {
	tail = min(beginning(text, "github_pat_"), beginning(text, beginPEM))
	if n := len(text); n >= 2 && text[n-2] == 'g' && text[n-1] == 'h' {
		tail = min(tail, n-2)
	} else if n >= 3 && text[n-3] == 'g' && text[n-2] == 'h' && lower(text[n-1]) {
		tail = min(tail, n-3)
	}
	for at := 0; ; {
		i := bytes.IndexByte(text[at:], '_')
		if i < 0 {
			break
		}
		at += i + 1
		from := tokenStart(text[:at])
		if from < 0 {
			continue
		}
		first := at
		for at < len(text) && tokenChar(text[at]) {
			at++
		}
		if at-first >= least {
			found = append(found, span{from, at})
		}
		if at == len(text) {
			tail, open = min(tail, from), tokenChar
		}
	}
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(beginPEM))
		if i < 0 {
			return found, tail, open
		}
		from := at + i
		n, key, more := pem(text[from:])
		at = from + n
		if key {
			found = append(found, span{from, at})
		}
		if more {
			tail = min(tail, from)
			if key {
				open = keyChar
			}
		}
	}
}

// tokenStart is where the prefix of a token begins that ends the text, or -1.
func tokenStart(text []byte) int {
	if n := len(text); n >= 4 && text[n-4] == 'g' && text[n-3] == 'h' && lower(text[n-2]) {
		return n - 4
	}
	if bytes.HasSuffix(text, []byte("github_pat_")) {
		return len(text) - len("github_pat_")
	}
	return -1
}

const (
	beginPEM = "-----BEGIN "
	endPEM   = "-----END "
	dashes   = "-----"
	label    = 40 // the longest in use: "ENCRYPTED PRIVATE KEY" and the like
)

// pem measures the PEM block that text begins with. Key says that it is a private key; more that the text ends in it.
func pem(text []byte) (n int, key, more bool) {
	head := text[len(beginPEM):]
	i := bytes.Index(head[:min(len(head), label+len(dashes))], []byte(dashes))
	if i < 0 {
		return len(beginPEM), false, len(head) < label+len(dashes)
	}
	if !bytes.HasSuffix(head[:i], []byte("PRIVATE KEY")) {
		return len(beginPEM), false, false
	}
	n = len(beginPEM) + i + len(dashes)
	for n < len(text) && keyChar(text[n]) {
		n++
	}
	end := text[n:]
	if len(end) < len(endPEM) && bytes.HasPrefix([]byte(endPEM), end) {
		return len(text), true, true
	}
	if !bytes.HasPrefix(end, []byte(endPEM)) {
		return n, true, false
	}
	foot := end[len(endPEM):]
	i = bytes.Index(foot[:min(len(foot), label+len(dashes))], []byte(dashes))
	if i < 0 && len(foot) < label+len(dashes) {
		return len(text), true, true
	}
	return n + len(endPEM) + max(i, 0) + len(dashes), true, false
}

// beginning is where the text ends with an unfinished word, or the length of the text.
func beginning(text []byte, word string) int {
	for n := min(len(word)-1, len(text)); n > 0; n-- {
		if bytes.HasSuffix(text, []byte(word[:n])) {
			return len(text) - n
		}
	}
	return len(text)
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }

func alnum(c byte) bool {
	return lower(c) || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func tokenChar(c byte) bool { return alnum(c) || c == '.' || c == '_' || c == '-' }

// keyChar is what the body of a PEM block is made of, with the headers of old encrypted keys, and \n as JSON has it.
func keyChar(c byte) bool {
	switch c {
	case '+', '/', '=', '\n', '\r', '\t', ' ', '\\', ':', ',':
		return true
	}
	return alnum(c)
}
