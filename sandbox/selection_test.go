package sandbox_test

import (
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
	} {
		if got := sandbox.MatchGlob(c.glob, c.path); got != c.want {
			t.Errorf("MatchGlob(%q, %q) = %v", c.glob, c.path, got)
		}
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sel  sandbox.Selection
		path string
		want bool
	}{
		{sandbox.Selection{}, "a", true},
		{sandbox.Selection{Only: []string{"d", "*.go"}}, "d/x", true},
		{sandbox.Selection{Only: []string{"d", "*.go"}}, "x", false},
		{sandbox.Selection{Drop: []string{"**/*.key"}}, "d/x.key", false},
		{sandbox.Selection{Only: []string{"d"}, Drop: []string{"d/x"}}, "d/x", false},
		{sandbox.Selection{Only: []string{"d"}, Drop: []string{"d/x"}}, "d/y", true},
	} {
		if got := c.sel.Takes(c.path); got != c.want {
			t.Errorf("%+v takes %q: %v", c.sel, c.path, got)
		}
	}
	if err := (sandbox.Selection{Only: []string{"a/[b"}}).Check(); err == nil {
		t.Error("a glob with an open bracket: no error")
	}
	if err := (sandbox.Selection{Only: []string{"**/a*"}, Drop: []string{"[!x]"}}).Check(); err != nil {
		t.Error(err)
	}
}
