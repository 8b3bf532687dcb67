package collect

import (
	"strings"
	"testing"
)

func TestLeaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at, target string
		want       bool
	}{
		{"l", "a", false}, {"l", "/a", true}, {"l", "..", true}, {"l", "../a", true}, {"d/l", "../a", false}, {"d/l", "../../a", true},
		{"d/l", "x/../../a", false}, {"d/l", "x/../../../a", true}, {"l", "..a", false}, {"l", ".", false}, {"l", "", false},
	} {
		if got := leaves(c.at, c.target); got != c.want {
			t.Errorf("leaves(%q, %q) = %v", c.at, c.target, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	if got := printable("a\x1b]0;x\n\u202e\xff"); got != `a\x1b]0;x\n\u202e\xff` {
		t.Errorf("printable: %s", got)
	}
	if got := printable(strings.Repeat("\n", 5000)); len(got) > maxEvidence {
		t.Errorf("%d bytes of evidence", len(got))
	}
}
