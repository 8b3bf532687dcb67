package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

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
	many := slices.Repeat([]string{"a"}, 100)
	if err := (sandbox.Selection{Only: many[:50], Drop: many[50:]}).Check(); err != nil {
		t.Error(err)
	}
	for want, sel := range map[string]sandbox.Selection{
		"selection has 101 entries, and may have 100": {Only: many, Drop: []string{"b"}},
		"has 1025 bytes, and may have 1024":           {Drop: []string{strings.Repeat("a", 1025)}},
	} {
		if err := sel.Check(); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
