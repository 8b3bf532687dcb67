package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// TestUpdateResolvesAConflict: after `/sandpiper update` the agent starts from the newest base with both sides, and its result is
// a merge onto the branch. By both transports.
func TestUpdateResolvesAConflict(t *testing.T) {
	t.Parallel()
	const agent = `if [ -e /sandpiper/sides ]; then
  sides=/sandpiper/sides/conflicts/sum.txt
  grep -qx 7 $sides && grep -qx 1 $sides && grep -qx +1 /sandpiper/sides/pull-request.patch && grep -qx 7 sum.txt && grep -q 'does not merge' /sandpiper/task.md && echo 8 >sum.txt
  exit
fi
while [ ! -e /sandpiper/go ]; do sleep 0.1; done
`
	for _, transport := range []string{"push", "api"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(agent+fixes, ".github/sandpiper.yml", "agent: sh agent.sh\nchecks: []\npromote: {transport: "+transport+"}\n"))
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.until("the agent works", func() bool { return w.said(n, "the agent is at work") })
			tip := w.lands("sum.txt", "7\n")
			w.letGo()
			w.ended(n, "changed")
			w.waits(1)
			first := w.pulls()[0]
			if !first.GetDraft() || !strings.Contains(first.GetBody(), "`/sandpiper update`") {
				t.Fatalf("draft %v:\n%s", first.GetDraft(), first.GetBody())
			}
			// The branch is looked up twice before the base is, which fails once: that costs no round.
			must(t, w.double.AddFault(github.Fault{Method: "GIT", Path: "info/refs", Times: 4, Delay: time.Nanosecond}))
			must(t, w.double.AddFault(github.Fault{Method: "GIT", Path: "info/refs", Status: 503}))
			w.say("octavia", first.GetNumber(), "/sandpiper update keep both")
			w.round(first.GetNumber(), 2, "changed")
			pr := w.pulls()[0]
			if got := w.fileAt(pr.GetHead().GetSHA(), "sum.txt"); got != "8\n" || pr.GetDraft() {
				t.Errorf("draft %v, sum.txt %q\n%s", pr.GetDraft(), got, pr.GetBody())
			}
			commit, _, err := w.as("rita").Git.GetCommit(t.Context(), "acme", "calc", pr.GetHead().GetSHA())
			must(t, err)
			var parents []string
			for _, p := range commit.Parents {
				parents = append(parents, p.GetSHA())
			}
			if !slices.Equal(parents, []string{first.GetHead().GetSHA(), tip}) {
				t.Errorf("parents %v, want the old head %s and the base %s", parents, first.GetHead().GetSHA(), tip)
			}
			if got := w.filesOf(pr.GetNumber()); !slices.Equal(got, []string{"sum.txt"}) {
				t.Errorf("files %v", got)
			}
		})
	}
}
