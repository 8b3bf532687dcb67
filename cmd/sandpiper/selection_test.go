package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSelectionOfHunks takes one hunk of a file, on the issue. The checks run on exactly that, and the rest is listed.
func TestSelectionOfHunks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("same\n", 10)
	w := newWorld(t, calc("sed -i 's/^a/A/; s/^b/B/' list.txt\n"+fixes, "list.txt", "a\n"+long+"b\n",
		".github/sandpiper.yml", "agent: sh agent.sh\nchecks:\n  - {name: upper, run: '! grep -q A list.txt', required: true}\n"))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	w.waits(1)
	first := w.pulls()[0]
	w.say("rita", n, "/sandpiper drop list.txt:3")
	w.until("a hunk that is not there is refused", func() bool { return w.said(n, "there is no hunk 3; the last one is 2") })
	if got := w.head(first.GetNumber()); got != first.GetHead().GetSHA() {
		t.Errorf("the refused selection moved the head to %s", got)
	}
	w.say("rita", n, "/sandpiper drop list.txt:1")
	w.waits(2)
	pr := w.pulls()[0]
	if diff := cmp.Diff("a\n"+long+"B\n", w.fileAt(pr.GetHead().GetSHA(), "list.txt")); diff != "" || pr.GetDraft() {
		t.Errorf("draft %v, list.txt (-want +got)\n%s", pr.GetDraft(), diff)
	}
	for _, want := range []string{"since `list.txt:1` was dropped", "- `list.txt` (in part: +1 −1 lines)", "on exactly this tree"} {
		if !strings.Contains(pr.GetBody(), want) {
			t.Errorf("the pull request does not say %q:\n%s", want, pr.GetBody())
		}
	}
}
