package checks

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// sarifLog is a SARIF 2.1.0 log (OASIS).
type sarifLog struct {
	Runs []struct {
		Tool struct {
			Driver struct{ Rules []sarifRule }
		}
		Results []struct {
			RuleID       string `json:"ruleId"`
			Level        string
			Suppressions []struct{ Status string }
			Message      struct{ Text string }
			Locations    []struct {
				Physical struct {
					Artifact struct{ URI string } `json:"artifactLocation"`
					Region   struct {
						Line   int `json:"startLine"`
						Column int `json:"startColumn"`
					}
				} `json:"physicalLocation"`
			}
		}
	}
}

// sarif reads the JSON documents of the form that are somewhere in the output.
func (p *parser) sarif(log []byte) {
	for range 20 {
		at := bytes.Index(log, []byte(`"runs"`))
		if at < 0 {
			return
		}
		start := bytes.LastIndexByte(log[:at], '{') // of the document: only its schema and version stand between
		if start < 0 {
			return
		}
		var doc sarifLog
		decoder := json.NewDecoder(bytes.NewReader(log[start:]))
		if decoder.Decode(&doc) != nil {
			log = log[at+1:]
			continue
		}
		p.sarifResults(doc)
		log = log[start+int(decoder.InputOffset()):]
	}
}

func (p *parser) sarifResults(doc sarifLog) {
	for _, run := range doc.Runs {
		for _, r := range run.Results {
			if len(r.Suppressions) > 0 && r.Suppressions[0].Status != "rejected" {
				continue
			}
			if at := slices.IndexFunc(run.Tool.Driver.Rules, func(rule sarifRule) bool { return rule.ID == r.RuleID }); r.Level == "" && at >= 0 {
				r.Level = run.Tool.Driver.Rules[at].Default.Level
			}
			level := map[string]string{"error": "failure", "note": "notice", "none": "notice"}[r.Level]
			for _, l := range r.Locations {
				uri, err := url.PathUnescape(l.Physical.Artifact.URI)
				if file := p.resolve([]byte(uri)); err == nil && file != "" {
					p.add(file, max(l.Physical.Region.Line, 1), l.Physical.Region.Column, orElse(level, "warning"), r.RuleID, r.Message.Text)
				}
			}
		}
	}
}

// sarifRule says how grave a finding is that does not say so itself.
type sarifRule struct {
	ID      string
	Default struct{ Level string } `json:"defaultConfiguration"`
}

// junit reads JUnit's XML. The form has no schema that all follow: a place is taken from the file and line of a case, or from the
// first line of a failure's text that names one.
func (p *parser) junit(log []byte) {
	start := bytes.Index(log, []byte("<testsuite"))
	decoder := xml.NewDecoder(bytes.NewReader(log[start:]))
	decoder.Strict = false
	var at struct{ class, name, file, line string }
	for {
		token, err := decoder.RawToken()
		if err != nil {
			return // the end, or the end of the document within a longer log
		}
		if end, ok := token.(xml.EndElement); ok && strings.HasPrefix(end.Name.Local, "testsuite") {
			p.document = span{start, start + int(decoder.InputOffset())} // its texts are not lines of the log
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		value := func(name string) string {
			for _, a := range element.Attr {
				if a.Name.Local == name {
					return a.Value
				}
			}
			return ""
		}
		switch element.Name.Local {
		case "testcase":
			at.class, at.name, at.file, at.line = value("classname"), value("name"), value("file"), value("line")
		case "failure", "error":
			p.junitFailure(strings.TrimPrefix(at.class+"."+at.name, "."), at.file, at.line, value("message"), charData(decoder))
		}
	}
}

func charData(d *xml.Decoder) string {
	token, err := d.RawToken()
	if err == io.EOF || err != nil {
		return ""
	}
	text, _ := token.(xml.CharData)
	return string(text)
}

func (p *parser) junitFailure(test, file, line, message, text string) {
	message = orElse(message, strings.TrimSpace(text))
	if row, err := strconv.Atoi(line); err == nil && file != "" {
		if found := p.resolve([]byte(file)); found != "" {
			p.add(found, row, 0, "failure", test, message)
			return
		}
	}
	for i, l := range strings.SplitN(message+"\n"+text, "\n", 200) {
		if i == 199 {
			return
		}
		l = strings.TrimSpace(l)
		if found, row := p.javaFrame([]byte(strings.TrimPrefix(l, "at ")), ""); found != "" {
			p.add(found, row, 0, "failure", test, message)
			return
		}
		if open := strings.LastIndexByte(l, '('); open >= 0 { // at com.acme.SumTest.adds(SumTest.java:12), and JavaScript's frames
			l = strings.TrimSuffix(l[open+1:], ")")
		}
		for _, word := range strings.Fields(l) {
			if found, row, col := p.position([]byte(strings.TrimRight(word, ":,"))); found != "" {
				p.add(found, row, col, "failure", test, message)
				return
			}
		}
	}
}
