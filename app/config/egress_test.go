package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestEgressNetworks(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]netip.Prefix{
		"":                     nil,
		"10.1.0.0/16,fd00::/8": {netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")},
	} {
		c, err := Load([]string{"HOME=/home/bot", "SANDPIPER_EGRESS_NETWORKS=" + value})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.EgressNetworks, cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: %s", value, diff)
		}
	}
	if _, err := Load([]string{"HOME=/home/bot", "SANDPIPER_EGRESS_NETWORKS=10.1.0.0"}); err == nil || !strings.Contains(err.Error(), "10.1.0.0/16") {
		t.Errorf("an address without its length: %v", err)
	}
}
