package sandpiper_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandpiper-bot/sandpiper"

// large are files that may have more than 400 lines.
var large = map[string]string{}

// long are functions outside of tests that may have more than 60 lines.
var long = map[string]string{}

// floor is the height of a room: nothing may import something higher, and rooms on the same floor leave each other alone.
func floor(room string) int {
	return map[string]int{"": 0, "sandbox": 1, "webhooks": 2, "checks": 2, "promote": 2, "app": 3, "fixtures": 3, "cmd": 4}[room]
}

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath, Dir, Doc               string
	Imports, TestImports, XTestImports []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// name is the path below the module; empty for the root package and false for what is not ours.
func name(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func room(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,Imports,TestImports,XTestImports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestImports holds the direction of imports, and their table.
func TestImports(t *testing.T) {
	t.Parallel()
	allowed := make(map[[2]string]bool) // by edge; true once it was seen
	for _, e := range house {
		if e.why == "" {
			t.Errorf("%s -> %s has no reason", e.from, e.to)
		}
		allowed[[2]string{e.from, e.to}] = false
	}
	var unknown []string
	for _, p := range packages(t) {
		from, _ := name(p.ImportPath)
		for _, path := range p.Imports {
			to, ours := name(path)
			if !ours {
				continue
			}
			if msg := below(from, to); msg != "" {
				t.Error(msg)
			}
			key := [2]string{from, to}
			if _, ok := allowed[key]; !ok {
				unknown = append(unknown, fmt.Sprintf("\t{%q, %q, \"\"},", from, to))
			}
			allowed[key] = true
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			if to, ours := name(path); ours && room(to) != "fixtures" && room(to) != room(from) {
				if msg := below(from, to); msg != "" {
					t.Errorf("in a test: %s", msg)
				}
			}
		}
		for _, e := range never {
			if (from == e.from || strings.HasPrefix(from, e.from+"/")) && slices.Contains(p.Imports, e.to) {
				t.Errorf("%s imports %s, but %s", from, e.to, e.why)
			}
		}
	}
	if len(unknown) > 0 {
		t.Errorf("imports that the house does not have yet; those that are right want a line and a reason:\n%s", strings.Join(unknown, "\n"))
	}
	for key, seen := range allowed {
		if !seen {
			t.Errorf("%s does not import %s any more; take it out of the table", key[0], key[1])
		}
	}
}

// below says what is wrong with the direction of an import; it holds whatever the table says.
func below(from, to string) string {
	a, b := room(from), room(to)
	switch {
	case to == "sandbox/sandboxtest":
		return fmt.Sprintf("%s imports %s, which is for tests", from, to)
	case a == b:
		return ""
	case b == "fixtures" && a != "cmd":
		return fmt.Sprintf("%s imports %s, which is for tests and for the demo", from, to)
	case b == "cmd", b != "" && floor(b) >= floor(a):
		return fmt.Sprintf("%s imports %s: imports go cmd -> app -> webhooks, checks, promote -> sandbox", from, to)
	}
	return ""
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment: what is it for, and what must it not do?", p.ImportPath)
		}
	}
}

// forbidden are calls that may not be written, with where they may.
var forbidden = []struct {
	call string
	may  func(path string) bool
	why  string
}{
	{"time.Sleep", nobody, "wait for what is waited for, with a timer and a context"},
	{"http.DefaultClient", nobody, "it has no timeout and anybody may change it"},
	{"http.Get", isTest, "it uses http.DefaultClient"},
	{"http.Post", isTest, "it uses http.DefaultClient"},
	{"http.DefaultServeMux", nobody, "anybody may add to it"},
	{"os.Exit", func(path string) bool {
		return strings.HasPrefix(path, "cmd/") || isTest(path) || strings.HasPrefix(path, "sandbox/sandboxtest/")
	}, "an exit status is decided in cmd"},
	{"log.Fatal", nobody, "an exit status is decided in cmd"},
	{"log.Fatalf", nobody, "an exit status is decided in cmd"},
}

func nobody(string) bool { return false }

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

func TestSource(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "vendor" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "fixtures/repos/"):
			return nil
		}
		checkFile(t, filepath.ToSlash(path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, path string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		t.Error(err)
		return
	}
	if lines := fset.File(file.Pos()).LineCount(); lines > 400 && large[path] == "" {
		t.Errorf("%s has %d lines; more than 400 want to be two files", path, lines)
	} else if lines <= 400 && large[path] != "" {
		t.Errorf("%s is not large any more; take it out of the table", path)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && !isTest(path) {
			lines, key := fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1, path+" "+fn.Name.Name
			if lines > 60 && long[key] == "" {
				t.Errorf("%s has %d lines; more than 60 want to be two functions", key, lines)
			} else if lines <= 60 && long[key] != "" {
				t.Errorf("%s is not long any more; take it out of the table", key)
			}
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok || x.Obj != nil { // Obj: a variable of that name
			return true
		}
		for _, f := range forbidden {
			if x.Name+"."+sel.Sel.Name == f.call && !f.may(path) {
				t.Errorf("%s: %s: %s", fset.Position(n.Pos()), f.call, f.why)
			}
		}
		return true
	})
}
