package checks

import (
	"bytes"
	"encoding/json"
	"path"
	"strings"
)

// goTest reads what `go test` prints about one package, or about one after the other, as text. A test's lines name files
// by their base name only, and may stand before or after the line that says how the test ended (with and without -v); the
// line that names the package comes last. So lines are held until the package is known.
type goTest struct {
	p       *parser
	pkg     string   // that the lines are of, where it is named before them
	test    string   // whose output the next lines are
	nested  []string // without -v: the test that the marks at each depth named last
	held    []held
	ended   map[string]bool // test → failed
	indent  int             // of the held line that takes continuations; 0: none
	crash   string          // the message of a panic or race whose stack is being read
	crashed string          // the test that it happened in
}

type held struct {
	test, file, message string
	line, offset        int
}

const heldMax = 5_000

// line takes one line and says whether it belongs to the testing package's own output.
func (t *goTest) line(line []byte) bool {
	switch line[0] {
	case ' ':
		return t.indented(line)
	case '=', '-':
		return t.mark(line, 0)
	case 'F', 'o', '?':
		if name, ok := packageLine(line); ok {
			t.flush(name)
			return true
		}
	case 'p', 'f', 'W':
		return t.crashLine(line)
	case '\t':
		return t.frame(line)
	}
	t.indent = 0
	return false
}

// mark reads `=== RUN   TestX`, `=== NAME  TestX` and `--- FAIL: TestX (0.00s)`; a subtest stands four spaces deeper.
func (t *goTest) mark(line []byte, depth int) bool {
	t.indent = 0
	if rest, ok := bytes.CutPrefix(line, []byte("=== ")); ok {
		t.section(bytes.Fields(rest))
		return true
	}
	for _, m := range []struct {
		prefix string
		failed bool
	}{{"--- FAIL: ", true}, {"--- PASS: ", false}, {"--- SKIP: ", false}} {
		rest, ok := bytes.CutPrefix(line, []byte(m.prefix))
		if !ok {
			continue
		}
		name, _, _ := bytes.Cut(rest, []byte(" "))
		t.test = string(name)
		t.nested = append(t.nested[:min(depth, len(t.nested))], t.test)
		t.end(t.test, m.failed)
		return true
	}
	return false
}

// section reads what stands behind ===: RUN TestX of go test's, and gotestsum's own: "FAIL: internal/avg TestAvg (0.00s)".
func (t *goTest) section(words [][]byte) {
	switch {
	case len(words) == 1 && string(words[0]) == "Failed": // all that was printed before comes again, by its package
		*t = goTest{p: t.p}
	case len(words) >= 3 && (string(words[0]) == "FAIL:" || string(words[0]) == "SKIP:"):
		t.flush(t.pkg)
		t.pkg, t.test = string(words[1]), string(words[2])
		t.end(t.test, words[0][0] == 'F')
	case len(words) == 2:
		t.test, t.nested = string(words[1]), nil
	}
}

func (t *goTest) end(test string, failed bool) {
	if t.ended == nil {
		t.ended = map[string]bool{}
	}
	t.ended[test] = failed
}

// indented reads the marks of subtests, `    file_test.go:12: message`, and the lines that go on with a message.
func (t *goTest) indented(line []byte) bool {
	rest := bytes.TrimLeft(line, " ")
	depth := len(line) - len(rest)
	if depth < 4 || len(rest) == 0 {
		return t.frame(line)
	}
	if t.indent > 0 && depth >= t.indent+4 {
		last := &t.held[len(t.held)-1]
		if len(last.message) < messageMax {
			last.message = strings.TrimPrefix(last.message+"\n", "\n") + string(line[t.indent+4:])
		}
		return true
	}
	if bytes.HasPrefix(rest, []byte("--- ")) {
		return t.mark(rest, depth/4)
	}
	if colon := bytes.Index(rest, []byte(".go:")); colon > 0 && !bytes.ContainsAny(rest[:colon], " /\t:") {
		n, end := number(rest, colon+4)
		if n > 0 && end < len(rest) && rest[end] == ':' && len(t.held) < heldMax {
			t.held = append(t.held, held{test: t.owner(depth / 4), file: string(rest[:colon+3]), line: n, offset: t.p.offset,
				message: string(bytes.TrimSpace(rest[end+1:]))})
			t.indent = depth
			return true
		}
	}
	t.indent = 0
	return t.frame(line)
}

// owner is the test that a log line at this depth belongs to: the one whose mark stands one step to its left.
func (t *goTest) owner(depth int) string {
	if depth >= 1 && depth <= len(t.nested) {
		return t.nested[depth-1]
	}
	return t.test
}

// crashLine reads the first line of what the runtime prints before a stack.
func (t *goTest) crashLine(line []byte) bool {
	t.indent = 0
	for _, prefix := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
		if bytes.HasPrefix(line, []byte(prefix)) {
			if t.crash == "" {
				t.crash, t.crashed = string(line), t.test
			}
			return true
		}
	}
	return false
}

// frame reads `\t/workspace/sum.go:5 +0x1d` of a stack: the first one in the tree is where the panic came from.
func (t *goTest) frame(line []byte) bool {
	if t.crash == "" {
		return false
	}
	rest := bytes.TrimLeft(line, " \t")
	colon := bytes.Index(rest, []byte(".go:"))
	if colon < 0 || rest[0] != '/' {
		return false
	}
	file := t.p.resolve(rest[:colon+3])
	if n, _ := number(rest, colon+4); file != "" && n > 0 {
		t.p.add(file, n, 0, "failure", t.crashed, t.crash)
		t.crash = ""
	}
	return true
}

// packageLine reads `FAIL\tpath\t0.1s`, `ok  \tpath\t(cached)` and `?   \tpath\t[no test files]`.
func packageLine(line []byte) (string, bool) {
	for _, prefix := range []string{"FAIL\t", "ok  \t", "?   \t"} {
		if rest, ok := bytes.CutPrefix(line, []byte(prefix)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				return string(f[0]), true
			}
		}
	}
	return "", false
}

// flush turns the held lines of failed tests into annotations, now that their package is known, and begins anew. A test
// without an end died with its process, so its lines count.
func (t *goTest) flush(pkg string) {
	files := map[string]string{}
	for _, h := range t.held {
		if failed, ended := t.ended[h.test]; ended && !failed {
			continue
		}
		file, known := files[h.file]
		if !known {
			file = t.p.packageFile(pkg, h.file)
			files[h.file] = file
		}
		if file != "" {
			t.p.offset = h.offset
			t.p.add(file, h.line, 0, "failure", h.test, h.message)
		}
	}
	*t = goTest{p: t.p}
}

// packageFile finds the file of a Go package in the tree: by the go.mod above the command's directory, else by the longest
// end of the import path that exists.
func (p *parser) packageFile(pkg, file string) string {
	for dir := path.Clean(p.src.Dir); ; dir = path.Dir(dir) {
		if module := p.module(dir); module != "" && (pkg == module || strings.HasPrefix(pkg, module+"/")) {
			return p.inTree(path.Join(dir, pkg[len(module):], file))
		}
		if dir == "." || dir == "/" {
			break
		}
	}
	rest := pkg
	if len(rest) > 300 { // no import path, and each part of it costs a look at the tree
		rest = ""
	}
	for tries := 0; rest != "" && tries < 12; tries++ {
		if found := p.inTree(path.Join(p.src.Dir, rest, file)); found != "" {
			return found
		}
		_, rest, _ = strings.Cut(rest, "/")
	}
	return p.inTree(path.Join(p.src.Dir, file))
}

func (p *parser) module(dir string) string {
	if known, ok := p.modules[dir]; ok {
		return known
	}
	name := ""
	if file := path.Join(dir, "go.mod"); p.src.Tree.Exists(file) {
		data, _ := p.src.Tree.Read(file) // one that cannot be read is one that is not there: the guess below remains
		for line := range bytes.Lines(data) {
			if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == "module" {
				name = strings.Trim(string(f[1]), "\"`")
				break
			}
		}
	}
	p.modules[dir] = name
	return name
}

// event is one line of `go test -json` (go doc test2json; build-output since Go 1.24).
type event struct {
	Action, Package, Test, Output string
}

var (
	actionKey = []byte(`"Action":"`)
	telling   = [][]byte{[]byte(`.go:`), []byte(`"Output":"    `), []byte(`:"fail"`), []byte(`:"pass"`), []byte(`panic: `), []byte(`fatal error: `), []byte(`DATA RACE`)}
)

// event takes a line of -json output and says whether it was one. Most events tell nothing that is wanted here, and
// decoding is what costs, so those are passed over by their looks.
func (p *parser) event(packages map[string]*goTest, line []byte) bool {
	if len(line) < 2 || line[0] != '{' || line[1] != '"' || !bytes.Contains(line[:min(len(line), 256)], actionKey) {
		return false
	}
	tells := false
	for _, w := range telling {
		tells = tells || bytes.Contains(line, w)
	}
	if !tells {
		return true
	}
	e := event{text(line, `"Action":"`), text(line, `"Package":"`), text(line, `"Test":"`), text(line, `"Output":"`)}
	t := packages[e.Package]
	if t == nil {
		t = &goTest{p: p}
		packages[e.Package] = t
	}
	switch {
	case e.Output != "":
		t.test = e.Test
		p.text(t, true, []byte(strings.TrimRight(e.Output, "\n")))
	case e.Test != "" && (e.Action == "fail" || e.Action == "pass"):
		t.end(e.Test, e.Action == "fail")
	case e.Action == "fail" || e.Action == "pass":
		t.flush(e.Package)
	}
	return true
}

// text is the value of a key that is written `"key":"`. It does not decode the whole line, which costs more than all the rest:
// within a JSON string those quotes would have backslashes before them, so the key cannot be found in a value.
func text(line []byte, key string) string {
	at := bytes.Index(line, []byte(key))
	if at < 0 {
		return ""
	}
	value := line[at+len(key)-1:] // from its quote on
	for end := 1; end < len(value); end++ {
		switch value[end] {
		case '\\':
			end++
		case '"':
			if bytes.IndexByte(value[:end], '\\') < 0 {
				return string(value[1:end])
			}
			var s string
			if json.Unmarshal(value[:end+1], &s) != nil {
				return ""
			}
			return s
		}
	}
	return ""
}
