package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// matcherOf is a file of one problem matcher. A pattern is an expression, and which of its groups is what.
func matcherOf(t testing.TB, patterns ...map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"problemMatcher": []any{map[string]any{"owner": "x", "pattern": patterns}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ofSetupActions are the matchers that actions/setup-node and actions/setup-go add (their .github and matchers.json).
func ofSetupActions(t testing.TB) mapTree {
	return mapTree{
		"eslint.json": matcherOf(t, map[string]any{"regexp": `^([^\s].*)$`, "file": 1},
			map[string]any{"regexp": `^\s+(\d+):(\d+)\s+(error|warning|info)\s+(.*)\s\s+(.*)$`, "line": 1, "column": 2, "severity": 3, "message": 4, "code": 5, "loop": true}),
		"tsc.json": matcherOf(t, map[string]any{"regexp": `^([^\s].*)[\(:](\d+)[,:](\d+)(?:\):\s+|\s+-\s+)(error|warning|info)\s+(TS\d+)\s*:\s*(.*)$`,
			"file": 1, "line": 2, "column": 3, "severity": 4, "code": 5, "message": 6}),
		"go.json": matcherOf(t, map[string]any{"regexp": `^\s*(\.{0,2}[/\\].+\.go):(?:(\d+):(\d+):)? (.*)`, "file": 1, "line": 2, "column": 3, "message": 4}),
	}
}

// TestMatchersOfSetupActions: they find in what the tools print the same lines as the bot's own readers, each after the others, and
// swallow nothing.
func TestMatchersOfSetupActions(t *testing.T) {
	t.Parallel()
	matchers := ofSetupActions(t)
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

// eager are matchers that run each expression on each line, as GitHub's runner does.
type eager struct{ matchers }

func (e *eager) line(line []byte) bool {
	if len(line) > matchedLine {
		return false
	}
	for _, one := range e.list {
		if !e.match(one, line) {
			continue
		}
		for _, other := range e.list {
			if other != one {
				other.reset()
			}
		}
		return true
	}
	return false
}

func (e *eager) match(m *matcher, line []byte) bool {
	take := func(at int) bool {
		groups := m.patterns[at].form.FindSubmatch(line)
		for i, g := range m.patterns[at].groups {
			if g > 0 && g < len(groups) {
				m.found[i] = groups[g]
			}
		}
		return groups != nil
	}
	if m.at > 0 && !take(m.at) {
		m.reset()
	}
	if m.at == 0 && !take(0) {
		return false
	}
	if m.at++; m.at < len(m.patterns) {
		return false
	}
	m.tell(e.p)
	return true
}

// FuzzMatchers finds the same by what lines must have as without. The expressions are of one matcher of two patterns and one of one.
func FuzzMatchers(f *testing.F) {
	for _, seed := range []struct {
		one, two, three string
		loop            bool
		log             string
	}{
		{`^([^\s].*)$`, `^\s+(\d+):(\d+)\s+(error|warning|info)\s+(.*)\s\s+(.*)$`, `^(.+)\((\d+),(\d+)\): (TS\d+): (.*)`, true, "a.x\n  1:2  error  m  r\n  2:3  error  m  r\nno\n  2:3  error  m  r\na.x(1,2): TS1: x\n"},
		{`a?^(a.x)`, `(?:^|x)(\d)`, `(?i)A\.X (\d)`, false, "a.x\n1\na.x 2\nA.X 3\nx1\n"},
		{"(?:\ufffd|ab)(.x)", `\b(\d+)$`, `(a.x)(\d){2,9}(?m:^|$)`, true, "ab.x\n\xff.x\n5\na.x99\n\n"},
		{`a|b(.*)$`, `x*(\d)?(.*)$`, `(?s)(a.x)(\d)(.*)$`, true, "a.x\nb77\na.x4\xff\u2028x\n"},
		{`(b|(?:a|cc))(\.x)`, `(?:1|2|3|4|5|6|7|8|9|00)([12])`, `(?:a.|b)(x|(yy))`, true, "cc.x\n001\nayy\nbx\nab\n"},
		{`(?:^a|(b))(.x)`, `(?:5|^6)(\d)`, `(?:a.x)*()(q)`, false, "yb.x\n65\nzb.x\n765\n"},
		{`^(?:(a)|b*)(.x)`, `^$|(\d)`, `^\s*(\.{0,2}[/\\].+\.x):(?:(\d+):(\d+):)? (.*)`, false, "a.x\n7\n./a.x:3:2: m\nbb.x\n8\n"},
	} {
		f.Add(seed.one, seed.two, seed.three, seed.loop, []byte(seed.log))
	}
	f.Fuzz(func(t *testing.T, one, two, three string, loop bool, log []byte) {
		lists := [2]matchers{}
		for i := range lists {
			p := &parser{src: Source{Tree: mapTree{"a.x": ""}}, first: -1, seen: map[place]bool{}, paths: map[string]string{"": "a.x", "a": "a.x"}}
			lists[i] = matchers{p: p, looked: true}
			for _, texts := range [][]string{{one, two}, {three}} {
				m := &matcher{level: "error"}
				for n, text := range texts {
					form, err := regexp.Compile(text)
					if err != nil || len(text) > 100 {
						return
					}
					m.patterns = append(m.patterns, pattern{form, needsOf(text), [6]int{1, 1 + n, 2, 3, 0, 4}, loop})
				}
				lists[i].list = append(lists[i].list, m)
			}
		}
		plain, quick := &eager{lists[0]}, &lists[1]
		for line := range bytes.Lines(log) {
			if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 || line[0] == ':' {
				continue
			}
			if want, got := plain.line(line), quick.line(line); got != want {
				t.Fatalf("%q: %v, want %v", line, got, want)
			}
			if want, got := fmt.Sprintf("%q", plain.list[0].found), fmt.Sprintf("%q", quick.list[0].found); plain.list[0].at == quick.list[0].at && got != want {
				t.Fatalf("%q: found %s, want %s", line, got, want)
			}
		}
		if diff := cmp.Diff(show(plain.p.found()), show(quick.p.found())); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// BenchmarkMatchers: the log of a build with a finding in each so many lines, no two alike, read for a C compiler and by the matchers of
// actions/setup-node and setup-go.
func BenchmarkMatchers(b *testing.B) {
	tree := ofSetupActions(b)
	tree["src/a.ts"], tree["src/hello.c"] = "", ""
	tree["gcc.json"] = matcherOf(b, map[string]any{"regexp": `^(.*):(\d+):(\d+):\s+(warning|error):\s+(.*)$`, "file": 1, "line": 2, "column": 3, "severity": 4, "message": 5})
	for _, every := range []int{1, 20} {
		log := []byte("::add-matcher::gcc.json\n::add-matcher::eslint.json\n::add-matcher::tsc.json\n::add-matcher::go.json\n")
		for i := 0; len(log) < 1<<20; i++ {
			switch {
			case i%every > 0:
				log = fmt.Appendf(log, "[%d/9999] Building CXX object src/CMakeFiles/thing.dir/module_%[1]d.cpp.o\n", i)
			case i/every%3 == 0:
				log = fmt.Appendf(log, "src/hello.c:%d:12: warning: format specifies type 'int' but the argument has type 'char *' %[1]d\n", i)
			case i/every%3 == 1:
				log = fmt.Appendf(log, "src/a.ts(%d,7): error TS2322: Type 'string' is not assignable to type 'number%[1]d'.\n", i)
			default:
				log = fmt.Appendf(log, "src/a.ts\n  %d:10  error  'x%[1]d' is assigned a value but never used  no-unused-vars\n", i)
			}
		}
		b.Run(fmt.Sprintf("one_in_%d", every), func(b *testing.B) {
			perCPU(b, len(log), func() { Parse("", log, Source{Root: "/workspace", Tree: tree}) })
		})
	}
}
