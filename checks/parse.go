package checks

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

const (
	annotationMax  = 500     // posted; more help nobody, and each 50 cost a request
	annotationHeld = 5_000   // kept while parsing, to choose from
	messageMax     = 4_000   // bytes; GitHub takes 64 KB
	parsedLine     = 4 << 10 // bytes of one line that are looked at
	lineLast       = 9_999_999
)

// Source says what the paths in a log mean.
type Source struct {
	Root string // where the tree lies inside the sandbox
	Dir  string // where the command ran, below Root
	Tree Tree   // only files of it are annotated; nil: nothing is
	Touched
}

// Found is what a log says about lines of the tree.
type Found struct {
	// On lines of the change, then in its files, then elsewhere; there failures first, then warnings and notices, each by file. At most 500.
	Annotations []*github.CheckRunAnnotation
	Near        int // how many of the annotations are on lines of the change
	Omitted     int // how many more there were
	First       int // the offset of the line in the log that the first one was found on, or -1
}

// Parse finds the lines of the tree that a log names. Kind "go" and "" read the output of go build, vet and test, as text
// or -json; the other kinds are those of Kinds; all read the form `file:line[:col]: message` too, which golangci-lint, staticcheck,
// gcc, clang, javac, mypy and ruff's concise output have. "generic" reads only that form.
func Parse(kind string, log []byte, src Source) Found {
	p := &parser{src: src, first: -1, seen: map[place]bool{}, paths: map[string]string{}, modules: map[string]string{}}
	if src.Tree == nil {
		return Found{First: -1}
	}
	goTool := kind == "" || kind == "go"
	p.documents(kind, log)
	if kind == "junit" || kind == "sarif" {
		return p.found()
	}
	p.families = p.readers(kind)
	text := &goTest{p: p}
	packages := map[string]*goTest{}
	for rest := log; len(rest) > 0; {
		line := rest
		p.offset = len(log) - len(rest)
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		if p.document.from <= p.offset && p.offset < p.document.to || goTool && p.event(packages, line) {
			continue
		}
		p.text(text, goTool, line)
	}
	text.flush(text.pkg)
	for _, name := range sortedKeys(packages) {
		packages[name].flush(name)
	}
	return p.found()
}

// bom is the byte order mark that .NET begins files with.
const bom = "\ufeff"

func sortedKeys(m map[string]*goTest) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type parser struct {
	src      Source
	lists    [3][]*github.CheckRunAnnotation // by how near they are to the change
	seen     map[place]bool
	omitted  int
	offset   int // of the current line
	first    int
	open     *github.CheckRunAnnotation // takes the indented lines that follow it
	paths    map[string]string          // as printed → in the tree, or "" when it is not there
	families []reader
	modules  map[string]string // directory → module path of the go.mod in it, or ""
	document span              // of the log, which has been read as a whole
}

// span is a range of offsets, its end not included.
type span struct{ from, to int }

// place is what makes two annotations the same: one line is not told the same twice, wherever in it the words begin.
type place struct {
	path    string
	line    int
	message string
}

func (p *parser) text(t *goTest, goTool bool, line []byte) {
	line = bytes.TrimRight(line, "\r")
	if bytes.IndexByte(line, '\r') >= 0 { // a progress bar: what a terminal shows in the end stands behind the last one
		line = line[bytes.LastIndexByte(line, '\r')+1:]
	}
	if len(line) > parsedLine {
		line = line[:parsedLine]
	}
	if bytes.IndexByte(line, 0x1b) >= 0 {
		line = stripANSI(line)
	}
	line = bytes.TrimPrefix(line, []byte(bom))
	if len(line) == 0 {
		return
	}
	if goTool && t.line(line) {
		p.open = nil
		return
	}
	if p.open == nil || line[0] != '\t' {
		for _, r := range p.families {
			if r.line(line) {
				p.open = nil
				return
			}
		}
	}
	p.generic(line)
}

// generic reads `file:line[:col]: message`, also after other words, and lines indented by a tab that go on with it, as
// the Go compiler's "have" and "want".
func (p *parser) generic(line []byte) {
	if p.open != nil && line[0] == '\t' {
		extend(p.open, line[1:])
		return
	}
	p.open = nil
	for i, tries := 0, 0; tries < 8; tries++ {
		colon := bytes.IndexByte(line[i:], ':')
		if colon < 0 {
			break
		}
		colon += i
		i = colon + 1
		row, end := number(line, i)
		if row == 0 || colon == 0 || end >= len(line) || line[end] != ':' {
			continue
		}
		file := p.locate(line[:colon])
		if file == "" {
			continue
		}
		col, after := number(line, end+1) // pylint counts columns from 0
		if after > end+1 && after < len(line) && line[after] == ':' {
			end = after
		} else {
			col = 0
		}
		message := bytes.TrimSpace(line[end+1:])
		if !hasLetter(message) { // a frame of a stack: file:line:col)
			return
		}
		p.open = p.add(file, row, col, level(message), "", string(message))
		return
	}
	p.inParens(line)
}

// inParens reads `src/a.cs(5,16): error CS0029: message`, which is Microsoft's form (MSBuild, cl, mcs), and `a.pas(4,8) Error: message`.
func (p *parser) inParens(line []byte) {
	for i, tries := 0, 0; tries < 4; tries++ {
		open := bytes.IndexByte(line[i:], '(')
		if open < 0 {
			return
		}
		open += i
		i = open + 1
		row, end := number(line, i)
		if row == 0 || open == 0 {
			continue
		}
		col := 0
		if end < len(line) && line[end] == ',' {
			col, end = number(line, end+1)
		}
		for end < len(line) && (line[end] == ',' || line[end] == '-' || line[end] >= '0' && line[end] <= '9') { // to where it goes
			end++
		}
		if end+2 >= len(line) || line[end] != ')' || line[end+1] != ':' && line[end+1] != ' ' {
			continue
		}
		message := bytes.TrimSpace(line[end+2:])
		if bytes.HasSuffix(message, []byte("proj]")) { // MSBuild names the project
			message = bytes.TrimSpace(message[:max(bytes.LastIndexByte(message, '['), 0)])
		}
		if line[end+1] == ' ' && !bytes.Contains(message[:min(len(message), 16)], []byte(": ")) { // prose
			continue
		}
		if file := p.locate(line[:open]); file != "" && hasLetter(message) {
			p.open = p.add(file, row, col, level(message), "", string(message))
			return
		}
	}
}

// number reads at most seven digits at i. It gives 0 when there are none.
func number(line []byte, i int) (n, end int) {
	for end = i; end < len(line) && end < i+7 && line[end] >= '0' && line[end] <= '9'; end++ {
		n = n*10 + int(line[end]-'0')
	}
	return n, end
}

func level(message []byte) string {
	word := bytes.ToLower(bytes.TrimLeft(message[:min(len(message), 24)], "[( "))
	for _, l := range []struct{ prefix, level string }{
		{"warn", "warning"}, {"note", "notice"}, {"info", "notice"}, {"hint", "notice"}, {"help", "notice"},
	} {
		if bytes.HasPrefix(word, []byte(l.prefix)) {
			return l.level
		}
	}
	return "failure"
}

// locate finds the file of the tree that the end of before names: all of it, or its last word.
func (p *parser) locate(before []byte) string {
	before = bytes.TrimLeft(before, " \t")
	if file := p.resolve(before); file != "" {
		return file
	}
	if i := bytes.LastIndexAny(before, " \t('\"=>"); i >= 0 {
		return p.resolve(before[i+1:])
	}
	return ""
}

// resolve maps a printed path to one of the tree: absolute ones below the root of the sandbox, relative ones below the
// command's directory or, as some tools print them, below the root of the repository.
func (p *parser) resolve(printed []byte) string {
	if known, ok := p.paths[string(printed)]; ok {
		return known
	}
	if len(printed) == 0 || len(printed) > 1024 || !hasLetter(printed) || bytes.IndexByte(printed, 0) >= 0 {
		return ""
	}
	name, file := strings.TrimPrefix(string(printed), "file://"), ""
	if strings.HasPrefix(name, "/") {
		if rel, ok := strings.CutPrefix(path.Clean(name), p.src.Root+"/"); ok {
			file = p.inTree(rel)
		}
	} else if file = p.inTree(path.Join(p.src.Dir, name)); file == "" && p.src.Dir != "" {
		file = p.inTree(name)
	}
	if file == "" && (strings.Contains(name, `\`) || len(name) > 3 && name[1:3] == ":/") {
		file = p.windows(strings.ReplaceAll(name, `\`, "/"))
	}
	p.paths[string(printed)] = file
	return file
}

// windows finds the file of a path of Windows'. Of one with a drive the longest end that exists is taken: where the tree lay there is
// not known.
func (p *parser) windows(name string) string {
	rooted := len(name) > 2 && name[1] == ':'
	for tries := 0; tries < 12; tries++ {
		file := p.inTree(path.Join(p.src.Dir, name))
		if file == "" {
			file = p.inTree(name)
		}
		_, below, more := strings.Cut(name, "/")
		if file != "" || !rooted || !more {
			return file
		}
		name = below
	}
	return ""
}

func hasLetter(b []byte) bool {
	for _, c := range b {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 {
			return true
		}
	}
	return false
}

func (p *parser) inTree(name string) string {
	name = path.Clean(name)
	if name == "." || name == ".." || strings.HasPrefix(name, "../") || !p.src.Tree.Exists(name) {
		return ""
	}
	return name
}

// add records an annotation and returns it, or nil when it is known already or there are too many.
func (p *parser) add(file string, line, col int, level, title, message string) *github.CheckRunAnnotation {
	line = max(line, 1) // 0 stands for the whole file
	key := place{file, line, message}
	if line > lineLast || p.seen[key] {
		return nil
	}
	p.seen[key] = true
	if message = quote.Cut(quote.Clean(message), messageMax, " …"); message == "" {
		return nil
	}
	if p.first < 0 {
		p.first = p.offset
	}
	list := &p.lists[p.src.rank(file, line)]
	if len(*list) >= annotationHeld {
		p.omitted++
		return nil
	}
	a := &github.CheckRunAnnotation{
		Path: &file, StartLine: &line, EndLine: &line, AnnotationLevel: &level, Message: &message,
	}
	if col > 0 && col <= lineLast {
		a.StartColumn, a.EndColumn = &col, &col
	}
	if title = quote.Cut(quote.Line(title), 255, "…"); title != "" {
		a.Title = &title
	}
	*list = append(*list, a)
	return a
}

func extend(a *github.CheckRunAnnotation, line []byte) {
	message := a.GetMessage()
	if len(message)+len(line) < messageMax {
		message += "\n" + quote.Clean(string(line))
		a.Message = &message
	}
}

func (p *parser) found() Found {
	grave := map[string]int{"failure": 0, "warning": 1, "notice": 2}
	f := Found{Omitted: p.omitted, First: p.first, Near: len(p.lists[0])}
	for _, list := range p.lists {
		slices.SortStableFunc(list, func(a, b *github.CheckRunAnnotation) int {
			return cmp.Or(grave[a.GetAnnotationLevel()]-grave[b.GetAnnotationLevel()], strings.Compare(a.GetPath(), b.GetPath()))
		})
		f.Annotations = append(f.Annotations, list...)
	}
	if len(f.Annotations) > annotationMax {
		f.Omitted += len(f.Annotations) - annotationMax
		f.Annotations = f.Annotations[:annotationMax:annotationMax]
	}
	f.Near = min(f.Near, len(f.Annotations))
	return f
}
