package checks

import "bytes"

// Kinds are the words that Check.Annotate knows beside none: which tools' forms a log is read for. Empty reads them all.
func Kinds() []string {
	return []string{"go", "generic", "eslint", "typescript", "javascript", "python", "rust", "java", "tap", "junit", "sarif", "matcher"}
}

// reader reads the lines of one family of tools and says whether a line was its own.
type reader interface{ line(line []byte) bool }

// readers gives the readers of a kind. "generic" and the forms that are like it need none.
func (p *parser) readers(kind string) (all []reader) {
	matchers, frames := &matchers{p: p}, &javaFrames{p: p}
	for _, family := range []struct {
		kind string
		reader
	}{
		{"matcher", matchers}, {"typescript", &typescript{p: p}}, {"java", &maven{p: p, frames: frames}}, {"java", frames}, {"eslint", &eslint{p: p}},
		{"rust", &panics{p: p}}, {"rust", &arrows{p: p}}, {"python", &python{p: p}}, {"tap", &tap{p: p}}, {"go", &vetJSON{p: p}}, {"javascript", &javascript{p: p}},
	} {
		if kind == "" || kind == family.kind || kind == "python" && family.kind == "rust" { // ruff draws rustc's arrows
			all = append(all, family.reader)
		}
	}
	return all
}

// documents reads what is one document, or lines of JSON: those forms name everything themselves.
func (p *parser) documents(kind string, log []byte) {
	for _, d := range []struct {
		kind, sign string
		read       func(*parser, []byte)
	}{
		{"sarif", `"runs"`, (*parser).sarif}, {"eslint", `"filePath"`, (*parser).eslintJSON}, {"junit", "<testsuite", (*parser).junit},
		{"rust", cargoSign, (*parser).cargoJSON}, {"rust", rustcSign, (*parser).rustcJSON},
		{"python", ruffSign, jsonList(ruffSign)}, {"python", pylintSign, jsonList(pylintSign)}, {"generic", shellcheckSign, jsonList(shellcheckSign)},
	} {
		if kind != "" && kind != d.kind {
			continue
		}
		if at := bytes.Index(log, []byte(d.sign)); at >= 0 {
			p.offset = bytes.LastIndexByte(log[:at], '\n') + 1
			d.read(p, log)
		}
	}
}

// position reads `path:line[:col]` at the end of s.
func (p *parser) position(s []byte) (file string, line, col int) {
	s = bytes.TrimSpace(s)
	var numbers []int
	for len(numbers) < 2 {
		colon := bytes.LastIndexByte(s, ':')
		if colon < 1 {
			break
		}
		n, end := number(s, colon+1)
		if n == 0 || end != len(s) {
			break
		}
		numbers = append(numbers, n)
		s = s[:colon]
	}
	switch len(numbers) {
	case 1:
		line = numbers[0]
	case 2:
		line, col = numbers[1], numbers[0]
	default:
		return "", 0, 0
	}
	return p.resolve(s), line, col
}
