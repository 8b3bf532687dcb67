package egress

import (
	"encoding/binary"
	"errors"
	"strings"
)

// maxHello is the most that is read before a ClientHello is complete, record headers and all. One with the largest post-quantum
// key shares of today has 2 KiB.
const maxHello = 32 << 10

// errMore says that a ClientHello is not complete yet.
var errMore = errors.New("incomplete ClientHello")

// refusal is an error that becomes a decision.
type refusal struct {
	reason Reason
	detail string
}

func (r *refusal) Error() string { return string(r.reason) + ": " + r.detail }

func refuse(reason Reason, detail string) error { return &refusal{reason, detail} }

// serverName reads the name from a ClientHello (RFC 8446, 4.1.2) at the beginning of data, which may be spread over several
// records. It gives errMore when there is too little, and a refusal when there is no name that could be trusted.
func serverName(data []byte) (string, error) {
	message, err := firstMessage(data)
	if err != nil {
		return "", err
	}
	malformed := refuse(NotTLS, "the ClientHello is malformed")
	r := reader{message}
	r.skip(2 + 32) // version, random
	r.vector8()    // session
	r.vector16()   // cipher suites
	r.vector8()    // compression methods
	extensions := reader{r.vector16()}
	if r.data == nil || len(r.data) != 0 {
		return "", malformed
	}
	name, seen := "", map[uint16]bool{}
	for len(extensions.data) > 0 {
		kind, body := extensions.uint16(), extensions.vector16()
		if extensions.data == nil || seen[kind] {
			return "", malformed
		}
		seen[kind] = true
		switch kind {
		case 0x0000:
			list := reader{body}
			one := reader{list.vector16()}
			hostName := one.uint8() == 0
			text := one.vector16()
			if list.data == nil || len(list.data) != 0 || one.data == nil || len(one.data) != 0 || !hostName {
				return "", malformed
			}
			name = string(text)
		case 0xfe0d: // RFC 9849. A browser's dummy of it (GREASE) is made to look no different.
			return "", refuse(HiddenName, "the client hides the real name by ECH; switch ECH off in it")
		}
	}
	if name == "" {
		return "", refuse(WrongName, "the ClientHello names no server (SNI)")
	}
	return strings.ToLower(name), nil
}

// firstMessage puts the first handshake message together from its records, and gives the body of it if it is a ClientHello.
func firstMessage(data []byte) ([]byte, error) {
	var message []byte
	for {
		if want := 4; len(message) >= want {
			if message[0] != 1 {
				return nil, refuse(NotTLS, "the first message is no ClientHello")
			}
			n := int(message[1])<<16 | int(message[2])<<8 | int(message[3])
			if n > maxHello {
				return nil, refuse(NotTLS, "the ClientHello is too long")
			}
			if len(message) >= want+n {
				return message[want : want+n : want+n], nil
			}
		}
		if len(data) > 0 && data[0] != 22 {
			return nil, refuse(NotTLS, "the tunnel does not begin with a TLS handshake")
		}
		if len(data) > 1 && data[1] != 3 {
			return nil, refuse(NotTLS, "the tunnel does not begin with a TLS handshake")
		}
		if len(data) < 5 {
			return nil, errMore
		}
		n := int(binary.BigEndian.Uint16(data[3:]))
		if n == 0 || n > 1<<14 {
			return nil, refuse(NotTLS, "a record of the ClientHello has no valid length")
		}
		fragment := data[5:min(5+n, len(data))]
		message = append(message, fragment...)
		if len(fragment) < n {
			data = nil
			if len(message) >= 4 { // an early answer is possible: the type, the length, the end
				continue
			}
			return nil, errMore
		}
		data = data[5+n:]
	}
}

// reader takes fields of TLS's presentation language off data, which is nil after one was not there.
type reader struct{ data []byte }

func (r *reader) take(n int) []byte {
	if len(r.data) < n || r.data == nil {
		r.data = nil
		return nil
	}
	out := r.data[:n:n]
	r.data = r.data[n:]
	return out
}

func (r *reader) skip(n int) { r.take(n) }

func (r *reader) uint8() int {
	if b := r.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) vector8() []byte  { return r.take(r.uint8()) }
func (r *reader) vector16() []byte { return r.take(int(r.uint16())) }
