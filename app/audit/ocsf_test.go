package audit

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

func TestOCSF(t *testing.T) {
	t.Parallel()
	f := sandbox.Finding{Run: "r-1-1", Time: noon, Kind: "net.denied", Severity: "medium", Observer: "host", Evidence: "evil.example", Outcome: "contained"}
	got, err := json.Marshal(OCSF(f))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"class_uid":2004,"category_uid":2,"activity_id":1,"type_uid":200401,"time":1777896000000,"severity_id":3,"severity":"medium","status_id":1,` +
		`"disposition_id":2,"message":"net.denied: contained, seen by the host","metadata":{"version":"1.3.0","product":{"name":"Sandpiper","vendor_name":"Sandpiper"},` +
		`"profiles":["security_control"]},"finding_info":{"uid":"` + OCSF(f).Info.UID + `","title":"net.denied","types":["net.denied"],"created_time":1777896000000},` +
		`"evidences":[{"data":{"evidence":"evil.example"}}],"unmapped":{"run":"r-1-1","observer":"host","outcome":"contained"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first, again := OCSF(f).Info.UID, OCSF(f).Info.UID
	f.Evidence = "other.example"
	if other := OCSF(f).Info.UID; len(first) != 32 || first != again || first == other {
		t.Errorf("uids %q, again %q, of another %q", first, again, other)
	}
}
