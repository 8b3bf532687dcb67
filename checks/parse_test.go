package checks

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "write what is found into testdata/parse")

// mapTree is a Tree of a few files.
type mapTree map[string]string

func (m mapTree) Exists(path string) bool { _, ok := m[path]; return ok }

func (m mapTree) Read(path string) ([]byte, error) {
	if s, ok := m[path]; ok {
		return []byte(s), nil
	}
	return nil, os.ErrNotExist
}

var calc = mapTree{
	"go.mod": "module example.com/acme/calc\n\ngo 1.26\n", "sum.go": "", "sum_test.go": "", "race_test.go": "", "Makefile": "",
	"internal/avg/avg.go": "", "internal/avg/avg_test.go": "", "src/hello.c": "",
}

func show(f Found) string {
	var b strings.Builder
	for _, a := range f.Annotations {
		fmt.Fprintf(&b, "%s %s:%d:%d [%s] %q\n", a.GetAnnotationLevel(), a.GetPath(), a.GetStartLine(), a.GetStartColumn(), a.GetTitle(), a.GetMessage())
	}
	return b.String()
}

// Each file of testdata/parse is the output of a real tool (Go 1.26.8; gcc's form), a line of dashes, and what is found.
func TestParseGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/parse/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			log, want, _ := strings.Cut(string(data), "----\n")
			got := show(Parse("", []byte(log), Source{Root: "/workspace", Tree: calc}))
			if *rewrite {
				if err := os.WriteFile(file, []byte(log+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	tree := mapTree{"go.mod": "module m.example/x\n", "a.go": "", "a_test.go": "", "x/a_test.go": "", "sub/go.mod": "module \"m.example/sub\"\n", "sub/a_test.go": "", "web/a.c": "", "x.js": ""}
	for name, tt := range map[string]struct{ kind, dir, log, want string }{
		"root package, not the directory of the module's name": {log: "--- FAIL: T (0.00s)\n    a_test.go:3: m\nFAIL\tm.example/x\t0.1s\n", want: "failure a_test.go:3:0 [T] \"m\"\n"},
		"package of a nested module":                           {dir: "sub", log: "--- FAIL: T (0.00s)\n    a_test.go:3: m\nFAIL\tm.example/sub\t0.1s\n", want: "failure sub/a_test.go:3:0 [T] \"m\"\n"},
		"unknown module, by the end of its path":               {log: "--- FAIL: T (0.00s)\n    a_test.go:3: m\nFAIL\tother.example/y/x\t0.1s\n", want: "failure x/a_test.go:3:0 [T] \"m\"\n"},
		"package in a passing test says nothing":               {log: "=== RUN   T\n    a_test.go:3: m\n--- PASS: T (0.00s)\nok  \tm.example/x\t0.1s\n"},
		"log that was cut before the package":                  {log: "--- FAIL: T (0.00s)\n    a_test.go:3: m\n", want: "failure a_test.go:3:0 [T] \"m\"\n"},
		"relative to the command's directory":                  {dir: "web", log: "a.c:1: m\n", want: "failure web/a.c:1:0 [] \"m\"\n"},
		"relative to the root all the same":                    {dir: "web", log: "a.go:1: m\n", want: "failure a.go:1:0 [] \"m\"\n"},
		"colours and carriage returns":                         {log: "\x1b[1m\x1b[31ma.go:1:2:\x1b[0m bad \x1b[K\r\n", want: "failure a.go:1:2 [] \"bad\"\n"},
		"a progress bar before it":                             {log: "\r 10%\r 99%\ra.go:1: bad\r\n", want: "failure a.go:1:0 [] \"bad\"\n"},
		"a column that is counted from 0":                      {log: "a.go:1:0: bad\n", want: "failure a.go:1:0 [] \"bad\"\n"},
		"a column past the end":                                {log: "a.go:1:99999: bad\n", want: "failure a.go:1:99999 [] \"bad\"\n"},
		"no UTF-8":                                             {log: "a.go:1: b\xffad\n", want: "failure a.go:1:0 [] \"b\ufffdad\"\n"},
		"a link of a terminal":                                 {log: "\x1b]8;;file:///workspace/a.go\x1b\\a.go\x1b]8;;\x1b\\:1:2: bad\n", want: "failure a.go:1:2 [] \"bad\"\n"},
		"after a line of a megabyte":                           {log: strings.Repeat("x", 1<<20) + "\na.go:1: bad\n", want: "failure a.go:1:0 [] \"bad\"\n"},
		"a path of Windows":                                    {log: `C:\src\repo\x\a_test.go:3:5: bad` + "\n", want: "failure x/a_test.go:3:5 [] \"bad\"\n"},
		"a relative path of Windows":                           {dir: "web", log: `.\a.c(3,5): warning C4100: bad` + "\n", want: "warning web/a.c:3:5 [] \"warning C4100: bad\"\n"},
		"a path with a drive and slashes":                      {log: "D:/src/repo/a.go:3: bad\n", want: "failure a.go:3:0 [] \"bad\"\n"},
		"a path of Windows that is not in the tree":            {log: `C:\src\repo\b.go:3:5: bad` + "\n" + `..\..\a.go:1: bad` + "\n"},
		"a call is no place":                                   {log: "a.go(3) says more on that: bad\nf(3,5): bad\na.go(3,5)\na.go(3,5): 7\n"},
		"two reports of SARIF":                                 {log: `{"version":"2.1.0","runs":[{"results":[{"message":{"text":"m"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"a.go"},"region":{"startLine":1}}}]}]}]}` + "\nand\n" + `{"runs":[{"results":[{"message":{"text":"n"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"a.go"}}}]}]}]}` + "\n", want: "warning a.go:1:0 [] \"m\"\nwarning a.go:1:0 [] \"n\"\n"},
		"an error of a program's own log":                      {log: "Error: cannot connect\n" + strings.Repeat("retrying\n", 30) + "    at f (x.js:3:1)\n"},
		"a file that cannot be read, as eslint says it":        {log: "/workspace/web/a.c\n  0:0  error  Parsing error: no project\n", want: "failure web/a.c:1:0 [] \"Parsing error: no project\"\n"},
		"lines that no file has":                               {log: `{"version":"2.1.0","runs":[{"results":[{"message":{"text":"m"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"a.go"},"region":{"startLine":9223372036854775807}}},{"physicalLocation":{"artifactLocation":{"uri":"a.go"},"region":{"startLine":-3,"startColumn":99999999999}}}]}]}]}`, want: "warning a.go:1:0 [] \"m\"\n"},
		"hidden characters go":                                 {log: "a.go:1: b\u202ea\x00d\n", want: "failure a.go:1:0 [] \"bad\"\n"},
		"generic does not read go test":                        {kind: "generic", log: "--- FAIL: T (0.00s)\n    x/a_test.go:3: m\nFAIL\tm.example/x\t0.1s\n", want: "failure x/a_test.go:3:0 [] \"m\"\n"},
		"no line of a NUL path":                                {log: "a\x00.go:1: m\n"},
		"a huge line number":                                   {log: "a.go:99999999999999999999: m\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, show(Parse(tt.kind, []byte(tt.log), Source{Root: "/workspace", Dir: tt.dir, Tree: tree}))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseKeepsFailuresFirstAndCountsTheRest(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&log, "sum.go:%d: warning: w\n", i+1)
		if i == 4000 {
			fmt.Fprintln(&log, "sum.go:1: error: e")
		}
	}
	f := Parse("", []byte(log.String()), Source{Tree: calc})
	if got, want := len(f.Annotations), annotationMax; got != want {
		t.Errorf("%d annotations, want %d", got, want)
	}
	if got, want := f.Omitted, 6001-annotationMax; got != want {
		t.Errorf("%d omitted, want %d", got, want)
	}
	if got := f.Annotations[0].GetMessage(); got != "error: e" {
		t.Errorf("first is %q", got)
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/parse/*.txt")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		found := Parse("", log, Source{Root: "/workspace", Dir: "internal", Tree: calc})
		if len(found.Annotations) > annotationMax {
			t.Errorf("%d annotations", len(found.Annotations))
		}
		for _, a := range found.Annotations {
			if !calc.Exists(a.GetPath()) || a.GetStartLine() < 1 || a.GetMessage() == "" || len(a.GetMessage()) > messageMax+200 {
				t.Errorf("bad annotation %v", a)
			}
		}
	})
}

// logs of about a megabyte: quiet, full of findings, -json, and one that is made to be slow.
func benchLogs(tb testing.TB) map[string][]byte {
	read := func(name string) string {
		data, err := os.ReadFile("testdata/parse/" + name + ".txt")
		if err != nil {
			tb.Fatal(err)
		}
		log, _, _ := strings.Cut(string(data), "----\n")
		return log
	}
	fill := func(s string) []byte { return []byte(strings.Repeat(s, 1<<20/len(s)+1)) }
	return map[string][]byte{
		"quiet":    fill("=== RUN   TestSomething/with_a_name\n--- PASS: TestSomething/with_a_name (0.00s)\n2026/11/29 12:30:01 level=info msg=\"request served\" path=/v1/things status=200\n"),
		"findings": fill(read("go-test") + read("generic")),
		"json":     fill(read("go-test-json")),
		"colons":   fill("1:2:3:4:5:6:7:8:9:a:1:"),
		"slow":     fill(strings.Repeat("    a.go:1: x\n", 5000) + "FAIL\t" + strings.Repeat("a/", 2000) + "\n"),
	}
}

func BenchmarkParse(b *testing.B) {
	for name, log := range benchLogs(b) {
		b.Run(name, func(b *testing.B) {
			perCPU(b, len(log), func() { Parse("", log, Source{Root: "/workspace", Tree: calc}) })
		})
	}
}
