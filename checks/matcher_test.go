package checks

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// matcherOf is a file of one problem matcher. A pattern is an expression, and which of its groups is what.
func matcherOf(t *testing.T, patterns ...map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"problemMatcher": []any{map[string]any{"owner": "x", "pattern": patterns}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMatchersOfSetupActions: the expressions that actions/setup-node and actions/setup-go add (their .github and matchers.json) find
// in what the tools print the same lines as the bot's own readers, each after the others, and swallow nothing.
func TestMatchersOfSetupActions(t *testing.T) {
	t.Parallel()
	matchers := mapTree{
		"eslint.json": matcherOf(t, map[string]any{"regexp": `^([^\s].*)$`, "file": 1},
			map[string]any{"regexp": `^\s+(\d+):(\d+)\s+(error|warning|info)\s+(.*)\s\s+(.*)$`, "line": 1, "column": 2, "severity": 3, "message": 4, "code": 5, "loop": true}),
		"tsc.json": matcherOf(t, map[string]any{"regexp": `^([^\s].*)[\(:](\d+)[,:](\d+)(?:\):\s+|\s+-\s+)(error|warning|info)\s+(TS\d+)\s*:\s*(.*)$`,
			"file": 1, "line": 2, "column": 3, "severity": 4, "code": 5, "message": 6}),
		"go.json": matcherOf(t, map[string]any{"regexp": `^\s*(\.{0,2}[/\\].+\.go):(?:(\d+):(\d+):)? (.*)`, "file": 1, "line": 2, "column": 3, "message": 4}),
	}
	lines := func(f Found) (all []string) {
		for _, a := range f.Annotations {
			all = append(all, fmt.Sprintf("%s %s:%d:%d", a.GetAnnotationLevel(), a.GetPath(), a.GetStartLine(), a.GetStartColumn()))
		}
		slices.Sort(all)
		return all
	}
	const vet = "# example.com/calc\n./sum.go:7:2: unreachable code\n"
	var log string
	var want []string
	tree := mapTree{"sum.go": ""}
	for name, text := range matchers {
		tree[name] = text
		log += "::add-matcher::" + name + "\n"
	}
	for _, tool := range []string{"tsc-7", "eslint-10"} {
		_, kind, of, printed, _ := toolCase(t, "testdata/tools/"+tool+".txt")
		for name, text := range of {
			tree[name] = text
		}
		log += vet + printed + "\n"
		want = append(want, lines(Parse(kind, []byte(printed), Source{Root: "/workspace", Tree: of}))...)
	}
	want = append(want, "failure sum.go:7:2")
	slices.Sort(want)
	// A line without a rule is none that eslint's expression takes; the bot's own reader does.
	byMatchers := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return line == "failure src/b.js:4:12" })
	if diff := cmp.Diff(byMatchers, lines(Parse("matcher", []byte(log), Source{Root: "/workspace", Tree: tree}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, lines(Parse("", []byte(log), Source{Root: "/workspace", Tree: tree}))); diff != "" {
		t.Errorf("with the bot's own readers (-want +got):\n%s", diff)
	}
}
