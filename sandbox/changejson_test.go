package sandbox

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChangesKeepTheBytesOfNames(t *testing.T) {
	t.Parallel()
	for _, want := range []Change{
		{Path: "plain", Kind: Added, NewMode: "100644", Size: 3, Added: 1},
		{Path: "ünï \U0001f600\n\"", Kind: Modified, Added: -1, Removed: -1},
		{Path: "bad\xffutf", From: "bad\xfeutf", Kind: Renamed},
	} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Change
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if odd := strings.Contains(string(text), "_base64"); odd != (want.From != "") {
			t.Errorf("JSON %s", text)
		}
	}
}
