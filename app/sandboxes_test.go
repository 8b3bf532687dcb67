package app

import "testing"

func TestUpstream(t *testing.T) {
	t.Parallel()
	for kv, want := range map[string]string{
		"https_proxy=http://proxy.example:3128":  "http://proxy.example:3128",
		"HTTPS_PROXY=proxy.example:3128":         "http://proxy.example:3128",
		"https_proxy=http://u:p@proxy.example":   "http://u:p@proxy.example",
		"HTTP_PROXY=http://proxy.example:3128":   "",
		"https_proxy=":                           "",
		"https_proxy=http://u:secret@[::1%zz]:1": "error",
	} {
		u, err := upstream([]string{"PATH=/bin", kv})
		got := ""
		switch {
		case err != nil:
			got = "error"
			if err.Error() != "https_proxy is not the address of a proxy" {
				t.Errorf("%s: %v", kv, err)
			}
		case u != nil:
			got = u.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", kv, got, want)
		}
	}
}
