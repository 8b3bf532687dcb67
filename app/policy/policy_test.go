package policy

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sandpiper-bot/sandpiper/fixtures/repos"
)

var update = flag.Bool("update", false, "rewrite testdata/cases.txt")

// golden is one case of testdata/cases.txt.
type golden struct {
	name, input, want string
	blind             bool // the schema cannot see the problem
}

const casesFile = "testdata/cases.txt"

// readCases gives the cases, and the lines before the first.
func readCases(t *testing.T) (head string, cases []golden) {
	t.Helper()
	data, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(data), "\n### ")
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		input, want, ok := strings.Cut("\n"+rest+"\n", "\n=====\n")
		if !ok {
			t.Fatalf("case %q has no line of =====", name)
		}
		name, blind := strings.CutSuffix(name, " [schema]")
		cases = append(cases, golden{name, strings.TrimPrefix(input+"\n", "\n"), strings.TrimSpace(want), blind})
	}
	return parts[0], cases
}

// outcome is what a person is told about a file.
func outcome(input string) string {
	p, err := Parse("f", []byte(input))
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, l := range p.Explain() {
		if l.From != "default" {
			lines = append(lines, l.From+" "+l.Key+" = "+l.Value)
		}
	}
	if len(lines) == 0 {
		return "default"
	}
	return strings.Join(lines, "\n")
}

func TestCases(t *testing.T) {
	head, cases := readCases(t)
	var out strings.Builder
	out.WriteString(head)
	for _, c := range cases {
		got := outcome(c.input)
		mark := ""
		if c.blind {
			mark = " [schema]"
		}
		out.WriteString("\n### " + c.name + mark + "\n" + c.input + "=====\n" + got + "\n")
		if diff := cmp.Diff(c.want, got); diff != "" && !*update {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(casesFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSchemaAgreesWithParser(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	_, cases := readCases(t)
	for _, tc := range cases {
		var value any
		if err := yaml.Unmarshal([]byte(tc.input), &value); err != nil || value == nil {
			continue // an editor's YAML reader says so, or there is nothing to say
		}
		_, parseErr := Parse("f", []byte(tc.input))
		schemaErr := compiled.Validate(value)
		if blind := parseErr != nil && schemaErr == nil; blind != tc.blind || parseErr == nil && schemaErr != nil {
			t.Errorf("%s: the parser says %v, the schema says %v", tc.name, parseErr, schemaErr)
		}
	}
}

func TestSchemaNamesEveryKeyAndDefault(t *testing.T) {
	for _, l := range Default().Explain() {
		for _, word := range strings.Split(l.Key, ".") {
			if !strings.Contains(string(Schema()), `"`+word+`": {`) {
				t.Errorf("the schema has no %q", word)
			}
		}
	}
	for _, p := range Profiles() {
		if !strings.Contains(string(Schema()), `"`+p+`"`) {
			t.Errorf("the schema has no profile %q", p)
		}
	}
}

func TestParseBounds(t *testing.T) {
	cases := map[string]struct{ input, want string }{
		"ErrHuge":        {strings.Repeat("# long\n", 20_000), "at most 32768 are read"},
		"ErrNotUTF8":     {"agent: claude\nbackend: \xff\n", "f:2:10: this byte is no text"},
		"ErrNUL":         {"agent: \x00", "f:1:8: this byte is no text"},
		"ErrNested":      {"checks: " + strings.Repeat("[", 30_000), "nested too deep"},
		"ErrNestedLines": {nested(20_000), "f"},
		"ErrTab":         {"budget:\n\ttime: 40m\n", "(indent with spaces)"},
		"ErrIndent":      {"checks:\n  - name: test\n   run: x\n", "f:3:4: value is not allowed in this context (is it indented"},
		"ErrFarWord":     {"checks:\n  - {name: test, run: x, annotate: jest}\n", `annotate cannot be "jest" (known: `},
		"ErrManyChecks":  {"protect: [" + strings.Repeat("a,", 200) + "]", "at most 100"},
		"ErrUTF16":       {"\xff\xfea\x00", "f:1:1: this byte is no text"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(tc.input))
			var inv *Invalid
			if !errors.As(err, &inv) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an *Invalid with %q", err, tc.want)
			}
			if len(inv.Problems) > maxProblems {
				t.Errorf("%d problems", len(inv.Problems))
			}
		})
	}
}

// nested is a map in a map, as deep as a file of this length can be.
func nested(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestByteOrderMarkAndCRLF(t *testing.T) {
	p, err := Parse("f", []byte("\ufeffagent: claude\r\nbudget:\r\n  time: 10m\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Agent.Profile != "claude" || p.Budget.Time != 10*time.Minute {
		t.Errorf("got %+v %v", p.Agent, p.Budget.Time)
	}
}

func TestDigest(t *testing.T) {
	a, err := Parse("a", []byte("agent: claude\nbudget: {time: 60m}\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse("b", []byte("# the same\nbudget:\n    time: 1h\nagent: \"claude\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a.Digest() != b.Digest() {
		t.Error("two files that mean the same have two digests")
	}
	if a.Digest() == Default().Digest() {
		t.Error("a change leaves the digest as it was")
	}
}

func TestCase32LabelsWithoutRegardToCase(t *testing.T) {
	tr := Triggers{Who: "write", Labels: []string{"agent", "ÄGENT"}}
	for label, want := range map[string]bool{"Agent": true, "agent": true, "ägent": true, "agents": false, "": false} {
		if got := tr.Match(label); got != want {
			t.Errorf("Match(%q) = %v", label, got)
		}
	}
}

func TestCase28PermissionDecides(t *testing.T) {
	cases := []struct {
		who, permission string
		want            bool
	}{
		{"write", "admin", true}, {"write", "maintain", true}, {"write", "write", true},
		{"write", "triage", false}, {"write", "read", false}, {"write", "none", false}, {"write", "", false},
		{"admin", "maintain", false}, {"maintain", "maintain", true}, {"", "admin", false},
	}
	for _, tc := range cases {
		if got := (Triggers{Who: tc.who}).Allows(tc.permission); got != tc.want {
			t.Errorf("who %q: Allows(%q) = %v", tc.who, tc.permission, got)
		}
	}
}

func TestProtects(t *testing.T) {
	p := Default()
	for path, want := range map[string]bool{".github/workflows/ci.yml": true, ".github": false, "CODEOWNERS": true, "src/CODEOWNERS": false, "main.go": false} {
		if _, got := p.Protects(path); got != want {
			t.Errorf("Protects(%q) = %v", path, got)
		}
	}
}

func TestPolicyOfTheExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := repos.Write(repos.Calc, dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, Path))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(Path, data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range p.Checks {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"build", "test", "vet"}, names); diff != "" || !p.Agent.IsZero() {
		t.Error(diff, p.Agent)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"agent: claude\n", "checks:\n- {name: a, run: b}\n", "a: &x [*x]\n", "? - a\n: b\n", "0::", "- - -\n", "{{},<<}", "b: 0_\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("f", data)
		if err == nil {
			_ = p.Digest()
			_ = p.Explain()
			return
		}
		var inv *Invalid
		if !errors.As(err, &inv) || len(inv.Problems) == 0 || len(inv.Problems) > maxProblems {
			t.Fatalf("got %v", err)
		}
	})
}
