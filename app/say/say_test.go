package say

import (
	"strings"
	"testing"
)

func TestBodyIsOfALengthThatGitHubTakes(t *testing.T) {
	t.Parallel()
	p := &Poster{Redact: func(s string) string { return strings.ReplaceAll(s, "secret", "[secret]") }}
	if got, want := p.Body("a--b", "a secret"), "a [secret]\n\n<!-- sandpiper:a__b -->"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := p.Body("key", strings.Repeat("ü", bodyMost))
	if len(got) > bodyMost || !strings.HasSuffix(got, "… cut: GitHub takes no more in a comment.\n\n"+Marker("key")) {
		t.Errorf("%d bytes that end in %q", len(got), got[max(0, len(got)-100):])
	}
}
