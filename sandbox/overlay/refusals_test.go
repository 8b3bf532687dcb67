package overlay

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// TestRefusals: the words are found wherever the writes cut them, and one stream stays one.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := &Backend{o: Options{Now: time.Now}}
	for text, want := range map[string]bool{"fatal: renaming 'a' failed: Invalid cross-device link\n": true, "Error: EXDEV: cross-device link": true, "all is well, EXDE": false} {
		for cut := range text {
			var out, errs strings.Builder
			var r refusals
			stdio := sandbox.Stdio{Out: &out, Err: &errs}
			s := r.watch(stdio)
			for _, part := range []string{"x", text[:cut], text[cut:], strings.Repeat("y", 100)} {
				if _, err := io.WriteString(s.Out, part); err != nil {
					t.Fatal(err)
				}
			}
			got := r.tell(sandbox.Workspace{}, b, stdio)
			if len(got) > 0 != want || strings.Contains(errs.String(), "policy") != want || out.String() != "x"+text+strings.Repeat("y", 100) {
				t.Errorf("%q cut at %d: %d findings, %q, %q", text, cut, len(got), errs.String(), out.String())
			}
		}
	}
	var out strings.Builder
	var r refusals
	if s := r.watch(sandbox.Stdio{Out: &out, Err: &out}); s.Out != s.Err {
		t.Error("one stream became two")
	}
	if s := r.watch(sandbox.Stdio{}); s.Out != nil || s.Err != nil {
		t.Error("no stream became one")
	}
}
