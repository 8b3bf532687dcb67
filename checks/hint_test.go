package checks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// TestNetHint: what tools print without a network (Go 1.26, npm 10, node 20, curl 7.88, git 2.39, wget 1.21, cargo 1.95, Python 3.11), and
// forms of pip, apt, Maven and Gradle that are from their public issues.
func TestNetHint(t *testing.T) {
	t.Parallel()
	add := func(host, list string) string {
		return "Its log says that it did not find `" + host + "`. If it should reach them, this line in `.github/sandpiper.yml` on the default branch opens them: `network: [" + list + "]`"
	}
	none := "Its log says that it found no network. Checks reach the hosts that `network` in `.github/sandpiper.yml` names, by a proxy, and nothing else."
	for name, c := range map[string]struct {
		log, want        string
		network, blocked []string
	}{
		"go":         {log: "dial tcp: lookup proxy.golang.org on 10.255.255.53:53: dial udp 10.255.255.53:53: connect: network is unreachable", want: add("proxy.golang.org", `"go"`)},
		"go, beside": {log: "dial tcp: lookup api.acme.example: no such host", network: []string{"go"}, want: add("api.acme.example", `"go", "api.acme.example"`)},
		"npm":        {log: "npm error request to https://registry.npmjs.org/left-pad failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org", want: add("registry.npmjs.org", `"npm"`)},
		"node":       {log: "Error: getaddrinfo ENOTFOUND api.acme.example\n    at x", want: add("api.acme.example", `"api.acme.example"`)},
		"curl":       {log: "curl: (6) Could not resolve host: api.acme.example", want: add("api.acme.example", `"api.acme.example"`)},
		"git":        {log: "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com", want: add("github.com", `"github"`)},
		"wget":       {log: "wget: unable to resolve host address ‘api.acme.example’", want: add("api.acme.example", `"api.acme.example"`)},
		"cargo":      {log: "  [6] Could not resolve hostname (Could not resolve host: index.crates.io)", want: add("index.crates.io", `"crates"`)},
		"pip":        {log: "NameResolutionError(\"…: Failed to resolve 'pypi.org' ([Errno -3] Temporary failure in name resolution)\")", want: add("pypi.org", `"pypi"`)},
		"apt":        {log: "Err:1 http://deb.debian.org/debian bookworm InRelease\n  Temporary failure resolving 'deb.debian.org'", want: add("deb.debian.org", `"debian"`)},
		"maven":      {log: "repo.maven.apache.org: Temporary failure in name resolution", want: add("repo.maven.apache.org", `"maven"`)},
		"gradle":     {log: "java.net.UnknownHostException: services.gradle.org", want: add("services.gradle.org", `"maven"`)},
		"python":     {log: "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", want: none},
		"an address": {log: "OSError: [Errno 101] Network is unreachable", want: none},
		"twice":      {log: strings.Repeat("getaddrinfo ENOTFOUND registry.npmjs.org\n", 3), want: add("registry.npmjs.org", `"npm"`)},
		"on purpose": {log: "ok: getaddrinfo ENOTFOUND nowhere.invalid"},
		"nothing":    {log: "--- FAIL: TestLookup\n"},
		"not asked by the proxy": {log: "java.net.UnknownHostException: repo.maven.apache.org", network: []string{"maven"},
			want: "Its log says that it did not find `repo.maven.apache.org`, which is open by the proxy alone that `$https_proxy` names: the program seems not to have asked it."},
		"seen by the proxy": {blocked: []string{"registry.npmjs.org:443", "*`x`:9"}, network: []string{"go"}, log: "getaddrinfo ENOTFOUND other.example",
			want: "It asked for `registry.npmjs.org`, ``*`x`:9``, which the policy does not open. If it should reach them, this line in `.github/sandpiper.yml` on the default branch opens them: ``network: [\"go\", \"npm\", \"*`x`:9\"]``"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := hint(Result{Conclusion: Failure, Exit: sandbox.Exit{Reason: sandbox.Exited, Code: 1, Blocked: c.blocked}}, []byte(c.log), c.network)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestHints say what people can do about the ends that a log does not explain.
func TestHints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how  Conclusion
		exit sandbox.Exit
		log  string
		want string
	}{
		{TimedOut, sandbox.Exit{Reason: sandbox.TimedOut}, "getaddrinfo ENOTFOUND registry.npmjs.org", "`timeout` of this check in `.github/sandpiper.yml` gives it more time.\n\nIts log says that it did not find `registry"},
		{Failure, sandbox.Exit{Reason: sandbox.OutOfMem}, "", "SANDPIPER_LIMIT_MEMORY"},
		{Failure, sandbox.Exit{Reason: sandbox.Overfull}, "", "SANDPIPER_LIMIT_DISK"},
		{Failure, sandbox.Exit{Reason: sandbox.Flooded}, "", "SANDPIPER_LIMIT_OUTPUT"},
		{Failure, sandbox.Exit{Reason: sandbox.Exited, Code: 127}, "", "can install what is missing"},
		{Failure, sandbox.Exit{Reason: sandbox.Exited, Code: 1}, "\xff\xfe<\x00t\x00e\x00s\x00t\x00s\x00u\x00i\x00t\x00e\x00s\x00>\x00", "a report in UTF-16, which is not read"},
		{Neutral, sandbox.Exit{Reason: sandbox.Lost}, "", "says nothing about the change"},
	} {
		if got := hint(Result{Conclusion: c.how, Exit: c.exit}, []byte(c.log), nil); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q in it", c.exit, got, c.want)
		}
	}
	for _, c := range []Conclusion{Success, Cancelled} {
		if got := hint(Result{Conclusion: c, Exit: sandbox.Exit{Reason: sandbox.Exited}}, []byte("Network is unreachable"), nil); got != "" {
			t.Errorf("%s: %q", c, got)
		}
	}
}
