package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// testPromoteHunks takes pieces of files: what is not taken stays as it was, to the byte, and is listed.
func testPromoteHunks(t *testing.T, f Fixture) {
	r := NewRepo(t)
	long := strings.Repeat("same\n", 10)
	r.Write("text", "a\n"+long+"b\n"+long+"c")
	r.Write("crlf", strings.ReplaceAll("a\n"+long+"b\n", "\n", "\r\n"))
	r.Write("tool", "a\n"+long+"b\n")
	r.Write("bin", "\x00a")
	r.Commit()
	id := f.Create(t, r)
	f.Sh(t, id, `sed -i 's/^a/A/; s/^b/B/' text crlf tool; printf '\nd' >>text; chmod +x tool; printf '\000b' >bin; echo n >new`)
	show := func(path string) string { return blob(t, f, sandbox.Ref(id, "promoted")+":"+path) }
	for _, c := range []struct {
		sel           sandbox.Selection
		changes, left []string
		holds         map[string]string
	}{
		{sandbox.Selection{Only: []string{"text:2", "crlf:1"}}, []string{"modified crlf", "modified text"},
			[]string{"modified bin", "modified crlf", "added new", "modified text", "modified tool"},
			map[string]string{"text": "a\n" + long + "B\n" + long + "c", "crlf": strings.ReplaceAll("A\n"+long+"b\n", "\n", "\r\n")}},
		{sandbox.Selection{Drop: []string{"text:1-2", "tool:mode,2", "bin", "new", "crlf"}}, []string{"modified text", "modified tool"},
			[]string{"modified bin", "modified crlf", "added new", "modified text", "modified tool"},
			map[string]string{"text": "a\n" + long + "b\n" + long + "c\nd", "tool": "A\n" + long + "b\n"}},
		{sandbox.Selection{Only: []string{"tool:mode"}}, []string{"modified tool"}, []string{"modified bin", "modified crlf", "added new", "modified text", "modified tool"},
			map[string]string{"tool": "a\n" + long + "b\n"}},
		{sandbox.Selection{Only: []string{"tool"}, Drop: []string{"tool:1-2"}}, []string{"modified tool"}, []string{"modified bin", "modified crlf", "added new", "modified text", "modified tool"},
			map[string]string{"tool": "a\n" + long + "b\n"}},
		{sandbox.Selection{Only: []string{"text:1-3", "tool"}}, []string{"modified text", "modified tool"}, []string{"modified bin", "modified crlf", "added new"}, nil},
	} {
		p, err := f.Manager.Select(t.Context(), id, c.sel, commitSpec())
		if err != nil {
			t.Fatalf("%+v: %v", c.sel, err)
		}
		if diff := cmp.Diff(c.changes, paths(p.Changes)); diff != "" {
			t.Errorf("%+v promotes (-want +got):\n%s", c.sel, diff)
		}
		if diff := cmp.Diff(c.left, paths(p.LeftOut)); diff != "" {
			t.Errorf("%+v leaves out (-want +got):\n%s", c.sel, diff)
		}
		for path, want := range c.holds {
			if diff := cmp.Diff(want, show(path)); diff != "" {
				t.Errorf("%+v makes of %s (-want +got):\n%s", c.sel, path, diff)
			}
		}
	}
	if got := f.Store(t, "ls-tree", sandbox.Ref(id, "promoted"), "tool"); !strings.HasPrefix(got, "100755") {
		t.Errorf("the mode of tool: %s", got)
	}
	refusesHunks(t, f, id)
	numbersHunks(t, f, id)
}

// refusesHunks names pieces that are not there.
func refusesHunks(t *testing.T, f Fixture, id sandbox.ID) {
	t.Helper()
	for entry, want := range map[string]string{"text:4": "the last one is 3", "bin:1": "no hunks", "new:1": "was added", "none:1": "did not change", "text:mode": "mode did not change", "text:3-2": "backwards"} {
		_, err := f.Manager.Select(t.Context(), id, sandbox.Selection{Only: []string{entry, "crlf"}}, commitSpec())
		var wrong *sandbox.ErrSelection
		if !errors.As(err, &wrong) || wrong.Entry != entry || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", entry, err, want)
		}
	}
	if _, err := f.Manager.Select(t.Context(), id, sandbox.Selection{Only: []string{"text"}, Drop: []string{"text:1-3"}}, commitSpec()); !errors.Is(err, sandbox.ErrNothing) {
		t.Errorf("all hunks dropped: %v", err)
	}
}

// numbersHunks looks for the numbers in what people are shown.
func numbersHunks(t *testing.T, f Fixture, id sandbox.ID) {
	t.Helper()
	var shown bytes.Buffer
	w := sandbox.NumberHunks(&shown)
	if err := errors.Join(f.Manager.Diff(t.Context(), id, w), w.Close()); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if want := fmt.Sprintf("@@ hunk %d", n+1); !strings.Contains(shown.String(), want) {
			t.Errorf("the diff does not number %q", want)
		}
	}
}
