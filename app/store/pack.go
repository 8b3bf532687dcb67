package store

import (
	"fmt"

	"github.com/klauspost/compress/s2"
)

// packed marks a body that was compressed; JSON begins with no such byte.
const packed = 0

// worthPacking is the size below which a body is stored as it is.
const worthPacking = 1 << 10

// pack makes a body smaller. Payloads are JSON that repeats itself; what is written to the disk is most of what storing costs.
func pack(body []byte) []byte {
	if len(body) < worthPacking {
		return body
	}
	out := make([]byte, 1+s2.MaxEncodedLen(len(body)))
	out[0] = packed
	return out[:1+len(s2.Encode(out[1:], body))]
}

// unpack gives back what pack was given.
func unpack(stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != packed {
		return stored, nil
	}
	body, err := s2.Decode(nil, stored[1:])
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return body, nil
}
