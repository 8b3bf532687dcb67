package store

import (
	"bytes"
	"testing"

	"github.com/sandpiper-bot/sandpiper/fixtures/payloads"
)

func TestPack(t *testing.T) {
	t.Parallel()
	bodies := [][]byte{nil, []byte("{}"), bytes.Repeat([]byte("{"), worthPacking), []byte(`{"zen":"\u0000"}`)}
	for _, p := range payloads.All() {
		bodies = append(bodies, p.Body)
	}
	for _, body := range bodies {
		for _, room := range [][]byte{nil, make([]byte, 100), make([]byte, 1<<20)} {
			got, err := unpack(pack(body, room))
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes come back as %d from a room of %d, %v", len(body), len(got), len(room), err)
			}
		}
	}
	if _, err := unpack([]byte{packed, 1, 2, 3}); err == nil {
		t.Error("a damaged body is taken for a good one")
	}
}
