package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// TestOCSF compares a finding of each sort with testdata/ocsf.jsonl.
func TestOCSF(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	lines := json.NewEncoder(&got)
	for _, f := range []sandbox.Finding{
		{Kind: "net.denied", Severity: "medium", Observer: "host", Evidence: "evil.example: not open: no rule names it (2 times)", Outcome: "contained"},
		{Kind: "net.denied", Severity: "low", Observer: "host", Evidence: "12 more hosts were refused, see egress.jsonl", Outcome: "contained"},
		{Kind: "broker.refused", Severity: "low", Observer: "host", Evidence: "model.budget: anthropic.messages (3 times)", Outcome: "contained"},
		{Kind: "fs.setuid", Severity: "medium", Observer: "host", Evidence: "bin/su (1) (mode 104755)", Outcome: "contained"},
		{Kind: "fs.symlink_out", Severity: "low", Observer: "host", Evidence: "out -> /etc/passwd", Outcome: "contained"},
		{Kind: "sys.killed", Severity: "high", Observer: "kernel", Evidence: "a system call of a foreign architecture", Outcome: "contained"},
		{Kind: "proc.survivor", Severity: "high", Observer: "host", Evidence: "control group: device or resource busy", Outcome: "breach"},
		{Kind: "net.unrecorded", Severity: "odd", Observer: "host", Evidence: "egress.jsonl: no space left on device", Outcome: "inconclusive"},
	} {
		f.Run, f.Time = "r-1-1", noon
		if err := lines.Encode(OCSF(f)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/ocsf.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOCSFNamesAFindingByWhatItSays(t *testing.T) {
	t.Parallel()
	f := sandbox.Finding{Run: "r-1-1", Time: noon, Kind: "net.denied", Evidence: "evil.example"}
	first, again := OCSF(f).Info.UID, OCSF(f).Info.UID
	f.Evidence = "other.example"
	if other := OCSF(f).Info.UID; len(first) != 32 || first != again || first == other {
		t.Errorf("uids %q, again %q, of another %q", first, again, other)
	}
}
