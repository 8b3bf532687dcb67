package sandbox_test

import (
	"path"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

func TestMatchGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "a/b", true}, {"a/", "a/b", true}, {"a/b", "a", false},
		{"*", "a", true}, {"*", "a/b", true}, {"*.go", "a.go", true}, {"*.go", "d/a.go", false}, {"**/*.go", "d/a.go", true},
		{"**/*.go", "a.go", true}, {"**/*.go", "d/e/a.go", true}, {"d/**", "d/e/f", true}, {"d/**", "d", false}, {"d/**", "e/d", false},
		{"d/**/f", "d/f", true}, {"d/**/f", "d/e/e/f", true}, {"d/**/f", "d/e/g", false}, {"**", "a", true}, {"./a", "a", true},
		{".github/**", ".github/workflows/x.yml", true}, {"[ab]", "b", true}, {"[ab]", "c", false}, {"a?c", "abc", true}, {"a?c", "a/c", false},
		{"docs/*.md", "docs/x.md", true}, {"docs/*.md", "docs/y/x.md", false}, {"", "a", false},
		{"**/d", "x/d/y", true}, {"**/**", "a", true}, {"d/**/**", "d", false}, {"d/**/**/f", "d/f", true}, {"**/a/b", "a/a/b", true},
		{"a**b", "axb", true}, {"a**b", "a/b", false}, {"a[", "a[", false}, {"a[/]b", "a/b", false}, {"{a,b}", "a", false}, {"{a,b}", "{a,b}", true},
		{`\*`, "*", true}, {`\*`, "a", false}, {"[^a]", "b", true}, {"[^a]", "a", false}, {"[a-c]x", "bx", true},
	} {
		if got := sandbox.MatchGlob(c.glob, c.path); got != c.want {
			t.Errorf("MatchGlob(%q, %q) = %v", c.glob, c.path, got)
		}
	}
}

func TestMatchPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"a", "a", true}, {"a", "a/b", false}, {"*", "a", true}, {"*", "a/b", false}, {"*.go", "x.go", true},
		{"docs/**", "docs/a/b.md", true}, {"docs/**", "docs", false}, {"**", "a/b/c", true}, {"**/x.md", "x.md", true},
		{"**/x.md", "a/b/x.md", true}, {"a/**/z", "a/z", true}, {"a/**/z", "a/b/c/z", true}, {"a/**/z", "a/b/c", false},
		{"**/a/**/b", "x/a/y/a/z/b", true}, {"**/a", "a/a/a", true}, {"**/a", "a/a/b", false}, {"[a-c]", "b", true}, {"a[", "a[", false},
	} {
		if got := sandbox.MatchPath(c.glob, c.path); got != c.want {
			t.Errorf("MatchPath(%q, %q) = %v", c.glob, c.path, got)
		}
	}
}

// A matcher that tries each ** at each place, or each * at each letter, does not come back from these.
func TestGlobsDoNotExplode(t *testing.T) {
	t.Parallel()
	deep, long := strings.Repeat("a/", 200)+"f", strings.Repeat("a", 4096)
	for _, c := range []struct{ glob, path string }{
		{strings.Repeat("**/a/", 60) + "x", deep},
		{strings.Repeat("**/", 300) + "x", deep},
		{strings.Repeat("**/*/", 60) + "x/**", deep},
		{strings.Repeat("**/a*a*a*b/", 60) + "x", deep},
		{strings.Repeat("a*", 500) + "b", long},
		{strings.Repeat("*", 1000) + "b", long},
	} {
		if sandbox.MatchGlob(c.glob, c.path) || sandbox.MatchPath(c.glob, c.path) {
			t.Errorf("%.20q… matches", c.glob)
		}
		if (sandbox.Selection{Drop: []string{c.glob}}).Takes(c.path) == false {
			t.Errorf("%.20q… drops", c.glob)
		}
	}
	if glob := strings.Repeat("**/a/", 60) + "f"; !sandbox.MatchGlob(glob, deep) || !sandbox.MatchPath(glob, deep) {
		t.Error("60 directories of 200, and the file: no match")
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{
		{"**/a/**/b", "x/a/y/a/z/b"}, {"a/**/**", "a/b"}, {"**/*a*/[b-d]?", "a/xax/ce/f"}, {`\*/**/a`, "*/b/a"}, {"a[/]", "a/b"}, {"**//", "a//"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, glob, p string) {
		if len(glob) > 32 || len(p) > 32 {
			return
		}
		names := strings.Split(p, "/")
		if got, want := sandbox.MatchPath(glob, p), tryAll(strings.Split(glob, "/"), names, false); got != want {
			t.Errorf("MatchPath(%q, %q) = %v", glob, p, got)
		}
		dir := strings.TrimSuffix(strings.TrimPrefix(glob, "./"), "/")
		if got, want := sandbox.MatchGlob(glob, p), tryAll(strings.Split(dir, "/"), names, true); got != want {
			t.Errorf("MatchGlob(%q, %q) = %v", glob, p, got)
		}
	})
}

// tryAll is the rule itself, in exponential time.
func tryAll(glob, p []string, below bool) bool {
	switch {
	case len(glob) == 0:
		return below || len(p) == 0
	case len(p) == 0:
		return false
	case glob[0] == "**" && len(glob) == 1:
		return true
	case glob[0] == "**":
		return tryAll(glob[1:], p, below) || tryAll(glob, p[1:], below)
	}
	ok, err := path.Match(glob[0], p[0])
	return ok && err == nil && tryAll(glob[1:], p[1:], below)
}
