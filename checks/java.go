package checks

import (
	"bytes"
	"path"
	"strings"

	"github.com/google/go-github/v60/github"
)

// maven reads `[ERROR] /workspace/src/main/java/A.java:[3,5] message`, and what javac says more of it on the lines below. javac's own
// form is file:line: message.
type maven struct {
	p      *parser
	frames *javaFrames
	last   *github.CheckRunAnnotation
}

func (m *maven) line(line []byte) bool {
	if m.last != nil && bytes.HasPrefix(line, []byte("  ")) {
		extend(m.last, bytes.TrimSpace(line))
		return true
	}
	m.last = nil
	if line[0] != '[' {
		return false
	}
	level := ""
	var rest []byte
	for _, l := range []struct{ mark, level string }{{"[ERROR] ", "failure"}, {"[WARNING] ", "warning"}} {
		if after, ok := bytes.CutPrefix(line, []byte(l.mark)); ok {
			level, rest = l.level, after
		}
	}
	if level == "" {
		m.frames.compiled(line)
		return false
	}
	if bytes.Contains(rest, []byte("<<< ")) { // `[ERROR] adds(com.acme.SumTest)  Time elapsed: 0.05 s  <<< FAILURE!`
		m.frames.began(string(bytes.Fields(rest)[0]))
		return true
	}
	at := bytes.Index(rest, []byte(":["))
	if at < 1 {
		return false
	}
	row, end := number(rest, at+2)
	col := 0
	if row > 0 && end < len(rest) && rest[end] == ',' {
		col, end = number(rest, end+1)
	}
	if row == 0 || end >= len(rest) || rest[end] != ']' {
		return false
	}
	file := m.p.resolve(rest[:at])
	if file == "" {
		return false
	}
	m.last = m.p.add(file, row, col, level, "", string(bytes.TrimSpace(rest[end+1:])))
	return true
}

// javaFrames reads `java.lang.AssertionError: message` and the frames below it: the first one in the tree is where it went wrong.
type javaFrames struct {
	p      *parser
	test   string
	thrown string
	module string // where the sources lie that were compiled last
}

func (f *javaFrames) began(test string) { f.test, f.thrown = test, "" }

// compiled reads `[INFO] Compiling 1 source file to /workspace/core/target/classes`.
func (f *javaFrames) compiled(line []byte) {
	_, to, ok := bytes.Cut(line, []byte(" to "))
	at := bytes.Index(to, []byte("/target/"))
	if !ok || at < 0 {
		return
	}
	if module, ok := bytes.CutPrefix(append(to[:at:at], '/'), []byte(f.p.src.Root+"/")); ok {
		f.module = string(module)
	}
}

func (f *javaFrames) line(line []byte) bool {
	frame, ok := bytes.CutPrefix(line, []byte("\tat "))
	if !ok {
		frame, ok = bytes.CutPrefix(line, []byte("    at "))
	}
	if !ok {
		if line[0] >= 'a' && line[0] <= 'z' && thrown(line) {
			f.thrown = string(line)
		}
		return false
	}
	if f.thrown == "" {
		return false
	}
	if file, row := f.p.javaFrame(frame, f.module); file != "" {
		f.p.add(file, row, 0, "failure", f.test, f.thrown)
		f.thrown = ""
		return true
	}
	return false
}

// thrown says whether a line begins with the name of a class that ends as those of exceptions do.
func thrown(line []byte) bool {
	name, _, _ := bytes.Cut(line, []byte(":"))
	return bytes.IndexByte(name, '.') > 0 && bytes.IndexByte(name, ' ') < 0 &&
		(bytes.HasSuffix(name, []byte("Error")) || bytes.HasSuffix(name, []byte("Exception")) || bytes.HasSuffix(name, []byte("Failure")))
}

// javaFrame finds the file of `com.acme.SumTest.adds(SumTest.java:8)`: a frame names the class and the file's base name only, so it is
// looked for below the directories that Maven and Gradle expect sources in.
func (p *parser) javaFrame(frame []byte, module string) (file string, row int) {
	method, at, ok := bytes.Cut(frame, []byte("("))
	colon := bytes.IndexByte(at, ':')
	if !ok || colon < 1 || len(frame) > 512 {
		return "", 0
	}
	row, end := number(at, colon+1)
	if row == 0 || end >= len(at) || at[end] != ')' {
		return "", 0
	}
	parts := strings.Split(string(method[bytes.LastIndexByte(method, '/')+1:]), ".") // a class loader or module may stand before a slash
	below := path.Join(append(parts[:max(len(parts)-2, 0)], string(at[:colon]))...)
	for _, root := range []string{"src/test/java", "src/main/java", "src/test/kotlin", "src/main/kotlin", "src", "test", ""} {
		if file = p.inTree(path.Join(p.src.Dir, root, below)); file == "" && module != "" {
			file = p.inTree(path.Join(module, root, below))
		}
		if file != "" {
			return file, row
		}
	}
	return "", 0
}
