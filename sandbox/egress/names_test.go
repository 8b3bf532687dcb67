package egress

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a.", 126) + "aa"
	for name, want := range map[string]string{
		"example.com":           "example.com",
		"EXAMPLE.Com.":          "example.com",
		"xn--bcher-kva.example": "xn--bcher-kva.example",
		"a.b-c.d1":              "a.b-c.d1",
		"1.com":                 "1.com",
		"0xg.example":           "0xg.example",
		"127.0.0.1.nip.io":      "127.0.0.1.nip.io", // a name that resolves to an address: the address is judged
		long:                    long,

		"":                             "",
		".":                            "",
		"example.com..":                "",
		"..example.com":                "",
		".example.com":                 "",
		"example..com":                 "",
		"localhost":                    "",
		"com":                          "",
		"-a.example":                   "",
		"a-.example":                   "",
		"a_b.example":                  "",
		"*.example.com":                "",
		"example.com\x00.evil.io":      "",
		"evil.io\x00.example.com":      "",
		"example.com\n":                "",
		"example.com ":                 "",
		" example.com":                 "",
		"user@example.com":             "",
		"example.com%00":               "",
		"example.com/":                 "",
		"example.com\\":                "",
		"example.com#":                 "",
		"example.com?":                 "",
		"bücher.example":               "",
		"ｅxample.com":                  "",
		"example。com":                  "",
		"exam\u200bple.com":            "",
		"127.0.0.1":                    "",
		"127.0.0.1.":                   "",
		"127.1":                        "",
		"2130706433":                   "",
		"017700000001":                 "",
		"0177.0.0.1":                   "",
		"0x7f000001":                   "",
		"0x7f.0.0.1":                   "",
		"0x7f.1":                       "",
		"127.0.0.0x1":                  "",
		"1.2.3.08":                     "",
		"example.0x":                   "",
		"example.1":                    "",
		"[::1]":                        "",
		"::1":                          "",
		"[::ffff:127.0.0.1]":           "",
		"::ffff:7f00:1":                "",
		"fe80::1%25eth0":               "",
		"a." + strings.Repeat("b", 64): "",
		"a." + long:                    "",
	} {
		got, err := Canonical(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Canonical(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestParseAuthority(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"example.com:443":         "example.com:443",
		"Example.com.:8443":       "example.com:8443",
		"example.com":             "example.com:80",
		"example.com:":            "",
		"example.com:0":           "",
		"example.com:0443":        "",
		"example.com:+443":        "",
		"example.com:65536":       "",
		"example.com:443:443":     "",
		"example.com:443 ":        "",
		"example.com: 443":        "",
		"example.com:https":       "",
		"example.com:4\x0043":     "",
		"[::1]:443":               "",
		"[::ffff:10.0.0.1]:443":   "",
		"::1:443":                 "",
		"user:pass@example.com":   "",
		"example.com@evil.io:443": "",
		":443":                    "",
		"127.0.0.1:443":           "",
		"2130706433:443":          "",
	} {
		h, err := parseAuthority(text, 80)
		got := ""
		if err == nil {
			got = h.String()
		}
		if got != want {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}

// Whatever is taken for a name has one form only, and is no address.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{"example.com", "EXAMPLE.com.", "127.1", "0x7f.1", "[::1]", "a\x00b.c", "xn--a.b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := Canonical(name)
		if err != nil {
			return
		}
		if again, err := Canonical(got); err != nil || again != got {
			t.Errorf("Canonical(%q) = %q, and of that %q, %v", name, got, again, err)
		}
		if strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || !strings.EqualFold(strings.TrimSuffix(name, "."), got) {
			t.Errorf("Canonical(%q) = %q", name, got)
		}
		if _, err := netip.ParseAddr(got); err == nil {
			t.Errorf("%q is an address", got)
		}
	})
}

func TestRules(t *testing.T) {
	t.Parallel()
	r, err := Parse([]string{"go", "example.com", "*.wild.example", "*.port.example:8443", "Other.Example:22"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"proxy.golang.org:443":       "go",
		"proxy.golang.org:80":        "other port",
		"example.com:443":            "example.com",
		"example.com:80":             "example.com",
		"example.com:8080":           "other port",
		"www.example.com:443":        "",
		"notexample.com:443":         "",
		"example.com.evil.io:443":    "",
		"a.wild.example:443":         "*.wild.example",
		"a.b.wild.example:80":        "*.wild.example",
		"wild.example:443":           "",
		"evilwild.example:443":       "",
		"a.wild.example.evil.io:443": "",
		"a.port.example:8443":        "*.port.example:8443",
		"a.port.example:443":         "other port",
		"other.example:22":           "Other.Example:22",
	} {
		h, err := parseAuthority(host, 0)
		if err != nil {
			t.Fatal(err)
		}
		line, other, ok := r.Match(h)
		if other {
			line = "other port"
		}
		if line != want || ok != (want != "" && !other) {
			t.Errorf("%s: got %q, %v; want %q", host, line, ok, want)
		}
	}
	var none Rules
	if _, _, ok := none.Match(Host{"example.com", 443}); ok || !none.Empty() || r.Empty() {
		t.Error("no rules open something")
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "*", "golang", "*.com", "*.co.uk", "*.github.io", "*.s3.amazonaws.com", "10.0.0.1", "*.0.0.1", "a.*.example",
		"https://example.com", "example.com/path", "example.com:0", "example.com:99999", "localhost", "[::1]:443", "example.com:443:443", "**.example.com"} {
		if err := Check(line); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
	_, err := Parse([]string{"golang", "go", "10.0.0.1"})
	if err == nil || strings.Count(err.Error(), "network ") != 2 {
		t.Errorf("not all problems at once: %v", err)
	}
}

// Every group is made of rules that could be written, each with its reason, and a denied host of a group leads to the group.
func TestGroups(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"crates", "debian", "github", "go", "maven", "npm", "pypi", "rubygems"}, Groups()); diff != "" {
		t.Error(diff)
	}
	for name, g := range groups {
		if _, err := Parse([]string{name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, m := range g {
			h, err := parseAuthority(m.host, 443)
			if err != nil || m.why == "" || Line(h) != name {
				t.Errorf("%s: %+v: %v, %q", name, m, err, Line(h))
			}
		}
	}
	if got := Line(Host{"example.com", 443}); got != "example.com" {
		t.Error(got)
	}
	if got := Line(Host{"example.com", 22}); got != "example.com:22" {
		t.Error(got)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	g, err := newGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddr("93.184.215.77")
	g.own[own] = true
	for _, a := range []string{"8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.0.1", "169.253.1.1", "2606:4700::1111", "2a00:1450::1",
		"64:ff9b::808:808", "::ffff:8.8.8.8"} {
		if why := g.refuses(netip.MustParseAddr(a)); why != "" {
			t.Errorf("%s: %s", a, why)
		}
	}
	for _, a := range []string{"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.192", "192.168.1.1", "198.18.0.1", "203.0.113.1", "224.0.0.251", "239.255.255.250", "255.255.255.255",
		"::", "::1", "::7f00:1", "::808:808", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
		"fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fd20:ce::254", "fc00::1", "ff02::1", "2002:7f00:1::1", "2002:808:808::1",
		"2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "fec0::1", "100::1", "5f00::1", "3fff::1", "::ffff:0:127.0.0.1", own.String(), "::ffff:93.184.215.77"} {
		if why := g.refuses(netip.MustParseAddr(a)); why == "" {
			t.Errorf("%s may be dialled", a)
		}
	}
	g.allowed = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	if why := g.refuses(netip.MustParseAddr("::ffff:10.1.2.3")); why != "" {
		t.Errorf("an open network: %s", why)
	}
	if g.refuses(netip.MustParseAddr("192.168.1.1")) == "" {
		t.Error("an open network opens another")
	}
}
