package mission

import (
	"io"
	"strings"
	"testing"
)

// TestALongDiffIsCut: what is held of it is bounded, git is let run to its end, and it is known that something is missing.
func TestALongDiffIsCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]head{
		"":            {},
		"12345":       {text: []byte("12345")},
		"12345678":    {text: []byte("12345678")},
		"12345678-90": {text: []byte("12345678"), cut: true},
	} {
		h := &head{most: 8}
		n, err := io.Copy(struct{ io.Writer }{h}, io.MultiReader(strings.NewReader(text[:len(text)/2]), strings.NewReader(text[len(text)/2:])))
		if err != nil || n != int64(len(text)) || string(h.text) != string(want.text) || h.cut != want.cut {
			t.Errorf("%q: %d taken, %q kept, cut %v, %v", text, n, h.text, h.cut, err)
		}
	}
}
