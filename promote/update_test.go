package promote

import (
	"bytes"
	"strings"
	"testing"
)

// TestSidesOfALargeChange: what is too large is cut off or left out, and it is said where.
func TestSidesOfALargeChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.made.files = map[string]string{"sum.go": "package ours\n" + strings.Repeat("// ours\n", sidesMost/8), "b": "2\n"}
	staged, err := w.stage()
	must(t, err)
	theirs := w.lands(map[string]string{"sum.go": "package theirs\n"})
	_, err = w.repo.Tip(t.Context(), "main")
	must(t, err)
	s, err := w.repo.Sides(t.Context(), theirs, staged.Commit)
	must(t, err)
	if len(s.Patch) > sidesMost+100 || !bytes.Contains(s.Patch, []byte("This patch is cut off here: it has ")) {
		t.Errorf("a patch of %d bytes, which ends with %q", len(s.Patch), s.Patch[max(len(s.Patch)-100, 0):])
	}
	if text, conflicts := s.Files["sum.go"]; !conflicts || text != nil {
		t.Errorf("sum.go: in conflict %v, %d bytes", conflicts, len(text))
	}
}
