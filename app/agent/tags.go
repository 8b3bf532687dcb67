package agent

import (
	"regexp"
	"slices"
	"strings"
)

var (
	openTagForm  = regexp.MustCompile(`^<([A-Za-z][A-Za-z0-9-]*)((?:\s+[A-Za-z_:][A-Za-z0-9_.:-]*(?:\s*=\s*(?:[^\s"'=<>` + "`" + `]+|'[^']*'|"[^"]*"))?)*)\s*/?>`)
	closeTagForm = regexp.MustCompile(`^</([A-Za-z][A-Za-z0-9-]*)\s*>`)
	attrForm     = regexp.MustCompile(`\s+([A-Za-z_:][A-Za-z0-9_.:-]*)(?:\s*=\s*([^\s"'=<>` + "`" + `]+|'[^']*'|"[^"]*"))?`)
	autolinkForm = regexp.MustCompile(`^<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@[A-Za-z0-9.-]+)>`)
)

// rawElements keep a block of HTML open over blank lines.
var rawElements = []string{"pre", "script", "style", "textarea"}

// shownAttributes have an effect that a person sees, and hold one word each.
var shownAttributes = []string{
	"align", "border", "checked", "class", "colspan", "controls", "datetime", "dir", "disabled", "height", "href", "id", "lang", "name",
	"open", "rel", "rowspan", "src", "srcset", "start", "target", "type", "valign", "value", "width",
}

// angle reads what begins with <.
func (sc *scanner) angle() {
	rest := sc.rest()
	switch {
	case strings.HasPrefix(rest, "<!--"):
		sc.span(2, "-->", "html comment")
		sc.lineHTML = true
		return
	case strings.HasPrefix(rest, "<![CDATA["):
		sc.span(9, "]]>", "html declaration")
		sc.lineHTML = true
		return
	case strings.HasPrefix(rest, "<?"):
		sc.span(2, "?>", "html declaration")
		sc.lineHTML = true
		return
	case len(rest) > 2 && rest[1] == '!' && letter(rest[2]):
		sc.span(2, ">", "html declaration")
		sc.lineHTML = true
		return
	}
	if m := autolinkForm.FindString(rest); m != "" {
		sc.write(len(m))
		return
	}
	if len(rest) > 1 && (letter(rest[1]) || rest[1] == '/') {
		sc.html = true
	}
	if m := closeTagForm.FindStringSubmatch(rest); m != nil {
		if slices.Contains(rawElements, strings.ToLower(m[1])) {
			sc.raw = false
		}
		sc.write(len(m[0]))
		return
	}
	m := openTagForm.FindStringSubmatchIndex(rest)
	if m == nil {
		sc.write(1)
		return
	}
	if slices.Contains(rawElements, strings.ToLower(rest[m[2]:m[3]])) {
		sc.raw = true
	}
	sc.out.WriteString(rest[:m[4]] + sc.attributes(rest[m[4]:m[5]]) + rest[m[5]:m[1]])
	sc.i += m[1]
}

// span takes out from i to the end mark, which is looked for behind the first letters. Without the mark all the rest goes:
// a browser would hide it too.
func (sc *scanner) span(skip int, mark, kind string) {
	end := strings.Index(sc.s[sc.i+skip:], mark)
	if end < 0 {
		sc.drop(len(sc.s)-sc.i, kind)
		return
	}
	sc.drop(skip+end+len(mark), kind)
}

func (sc *scanner) attributes(s string) string {
	return attrForm.ReplaceAllStringFunc(s, func(attr string) string {
		m := attrForm.FindStringSubmatch(attr)
		name, value := strings.ToLower(m[1]), strings.Trim(m[2], `"'`)
		switch {
		case name == "alt":
			if words(value) > 2 {
				sc.t.add("text of an image", value, true)
			}
			return attr
		case name == "media" && len(value) < 80, slices.Contains(shownAttributes, name) && words(value) < 2:
			return attr
		}
		sc.t.add("html attribute", strings.TrimSpace(attr), false)
		return ""
	})
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
