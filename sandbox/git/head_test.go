package git

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeadKeepsTheBeginning(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Head{
		"":            {Most: 8},
		"12345":       {Most: 8, Text: []byte("12345"), Size: 5},
		"12345678":    {Most: 8, Text: []byte("12345678"), Size: 8},
		"12345678-90": {Most: 8, Text: []byte("12345678"), Size: 11},
	} {
		h := Head{Most: 8}
		n, err := io.Copy(struct{ io.Writer }{&h}, io.MultiReader(strings.NewReader(text[:len(text)/2]), strings.NewReader(text[len(text)/2:])))
		if err != nil || n != int64(len(text)) || h.Cut() != (len(text) > 8) {
			t.Errorf("%q: %d taken, cut %v, %v", text, n, h.Cut(), err)
		}
		if diff := cmp.Diff(want, h); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
