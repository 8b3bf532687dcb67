package collect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// notes gathers findings: one for each path up to perKind of a kind, then a count, as a sandbox can make a million odd names.
type notes struct {
	run    sandbox.ID
	now    func() time.Time
	found  []sandbox.Finding
	counts map[string]int
}

const perKind = 20

// maxEvidence is the cap of Finding.Evidence.
const maxEvidence = 4 << 10

func (n *notes) add(kind, severity, evidence string) {
	if n.counts == nil {
		n.counts = map[string]int{}
	}
	if n.counts[kind]++; n.counts[kind] > perKind {
		return
	}
	n.found = append(n.found, n.finding(kind, severity, printable(evidence)))
}

func (n *notes) finding(kind, severity, evidence string) sandbox.Finding {
	return sandbox.Finding{Run: n.run, Time: n.now().UTC(), Kind: kind, Severity: severity, Observer: "host",
		Evidence: evidence, Outcome: "contained"}
}

func (n *notes) list() []sandbox.Finding {
	list := n.found
	for _, kind := range slices.Sorted(maps.Keys(n.counts)) {
		if more := n.counts[kind] - perKind; more > 0 {
			list = append(list, n.finding(kind, "medium", fmt.Sprintf("and %d more", more)))
		}
	}
	return list
}

// printable escapes control characters, invalid bytes and what is not ASCII, and cuts the length.
func printable(s string) string {
	q := strconv.QuoteToASCII(s)
	q = q[1 : len(q)-1]
	if len(q) > maxEvidence {
		q = q[:maxEvidence-3] + "..."
	}
	return q
}
