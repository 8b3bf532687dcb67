package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Canonical brings a host name into the one form that is matched, resolved and compared: lower case, without the dot at
// the end. It refuses everything else that somebody might take for a name: addresses in any spelling of inet_aton(3) (dotted,
// decimal, octal, hex, short), brackets, users, zones, escapes, NUL, names in Unicode. What a name may not contain, a
// second reader cannot understand differently: CVE-2022-24825 was a dot, a case of 2025 the NUL in "attacker.example\0.google.com".
func Canonical(name string) (string, error) {
	if len(name) > 254 {
		return "", errors.New("longer than a name can be")
	}
	name = strings.TrimSuffix(name, ".")
	lower := []byte(name)
	for i, c := range lower {
		switch {
		case 'A' <= c && c <= 'Z':
			lower[i] = c + 'a' - 'A'
		case c >= 0x80:
			return "", errors.New("not ASCII: a name in another script is written in its xn-- form")
		case c == ':':
			return "", errors.New("an IPv6 address is no name")
		case !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.'):
			return "", fmt.Errorf("%q cannot be part of a host name", rune(c))
		}
	}
	name = string(lower)
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", fmt.Errorf("%q is no part of a host name", label)
		}
	}
	// No top-level domain is a number, and inet_aton takes whatever ends in one for an address.
	if last := labels[len(labels)-1]; isNumber(last) {
		return "", errors.New("an address is no name")
	}
	if len(labels) == 1 {
		return "", errors.New("a name without a dot means a host near by")
	}
	return name, nil
}

// isNumber says whether inet_aton or a URL parser would read a part of an address.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// parsePort takes the one spelling of a port.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is no port", s)
	}
	return uint16(n), nil
}

// parseAuthority takes "name:port", or a name alone where there is a default port.
func parseAuthority(s string, port uint16) (Host, error) {
	name, text, ok := strings.Cut(s, ":")
	if ok && !strings.Contains(text, ":") {
		p, err := parsePort(text)
		if err != nil {
			return Host{}, err
		}
		port = p
	} else if ok {
		name = s // an address of IPv6: Canonical says so
	}
	canonical, err := Canonical(name)
	if err != nil {
		return Host{}, err
	}
	if port == 0 {
		return Host{}, errors.New("no port")
	}
	return Host{canonical, port}, nil
}

// String is name:port.
func (h Host) String() string { return h.Name + ":" + strconv.Itoa(int(h.Port)) }
