package store

import (
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
)

// packed marks a body that was compressed; JSON begins with no such byte.
const packed = 0

// worthPacking is the size below which a body is stored as it is.
const worthPacking = 1 << 10

// pack makes a body smaller, in room where that is enough. Payloads are JSON that repeats itself; what is written to the disk is
// most of what storing costs.
func pack(body, room []byte) []byte {
	if len(body) < worthPacking {
		return body
	}
	out := slices.Grow(room[:0], 1+s2.MaxEncodedLen(len(body)))
	out = out[:cap(out)]
	out[0] = packed
	return out[:1+len(s2.Encode(out[1:], body))]
}

// packs are what bodies are packed into; what a large one needed is not kept.
var packs = sync.Pool{New: func() any { return &packRoom{} }}

// packRoom has room for the packed body of nearly every delivery.
type packRoom [64 << 10]byte

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
