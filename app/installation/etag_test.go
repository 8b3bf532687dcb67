package installation

import (
	"fmt"
	"testing"
)

func TestETagsAreBounded(t *testing.T) {
	t.Parallel()
	e := newETags()
	key := func(i int) etagKey { return etagKey{1, fmt.Sprint(i), ""} }
	e.put(&remembered{key: key(-1), body: make([]byte, etagEntry+1)})
	if e.get(key(-1)) != nil {
		t.Error("an answer that is too large is remembered")
	}
	most := etagBytes / etagEntry
	for i := range most {
		e.put(&remembered{key: key(i), body: make([]byte, etagEntry)})
	}
	e.get(key(0))
	e.put(&remembered{key: key(0), body: make([]byte, etagEntry)})
	e.put(&remembered{key: key(most), body: make([]byte, etagEntry)})
	if e.get(key(0)) == nil || e.get(key(most)) == nil || e.get(key(1)) != nil {
		t.Error("the least recently used one goes first")
	}
	if e.bytes != etagBytes || len(e.by) != most || e.order.Len() != most {
		t.Errorf("got %d bytes in %d entries", e.bytes, len(e.by))
	}
	e.put(&remembered{key: key(-2), header: map[string][]string{"Link": {"<next>"}}, body: make([]byte, etagEntry)})
	if e.bytes > etagBytes || len(e.by) != most-1 {
		t.Errorf("with a header: %d bytes in %d entries, want it to count", e.bytes, len(e.by))
	}
}
