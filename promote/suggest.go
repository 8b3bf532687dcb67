package promote

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// What is asked for on a pull request whose branch the bot must not push to is suggested there, on the lines that its page shows. GitHub
// takes a comment on a line of the diff, or on several of one hunk, and nowhere else
// (https://docs.github.com/en/rest/pulls/reviews#create-a-review-for-a-pull-request).

// Suggestion replaces lines of a file at the head of a pull request.
type Suggestion struct {
	Path        string
	Start, Line int    // the first and the last of them, counted from 1
	Text        string // what stands there then, each line of it ended; empty: nothing
}

// Suggested is a result as a pull request's page can show it.
type Suggested struct {
	Suggestions []Suggestion
	Patch       string   // of what does not stand on lines that the page shows; git apply takes it on the head
	Unshown     []string // paths of which something is in neither: too long, or no text that a page shows as it is
}

// SuggestLimits bound what is shown. What is beyond goes from the suggestions into the patch, and from there to what is not shown.
type SuggestLimits struct {
	Suggestions int // how many
	Text        int // bytes of one
	Patch       int // bytes of all of it
}

// Suggest sorts a result, the output of git diff from the head with context and without renames, onto the lines that the page shows:
// shown has the patch of each file as GitHub gives it. Text that redact changes is not shown at all.
func Suggest(shown map[string]string, result string, redact func(string) string, most SuggestLimits) Suggested {
	s := suggester{redact: redact, most: most}
	for _, section := range sections(result) {
		s.file(section, shown)
	}
	return s.Suggested
}

type suggester struct {
	Suggested
	redact func(string) string
	most   SuggestLimits
}

// file suggests what it can of one file. Everything else of it goes into the patch.
func (s *suggester) file(section string, shown map[string]string) {
	path, head, hunks := readSection(section)
	rest, lines, used, moved := "", rightSide(shown[path]), 0, 0
	for _, h := range hunks {
		for i := range h.groups {
			g := &h.groups[i]
			if to, ok := s.place(path, *g, lines, used); ok && plainChange(head) {
				s.Suggestions = append(s.Suggestions, to)
				g.suggested, used = true, to.Line
			}
		}
		text, by := h.rest(moved)
		rest, moved = rest+text, moved+by
	}
	if rest == "" && len(hunks) > 0 {
		return
	}
	rest = head + rest
	_, exact := quote.Exact("diff", rest)
	if !exact || s.redact(rest) != rest || strings.Contains(head, "\nBinary files ") || len(s.Patch)+len(rest) > s.most.Patch {
		s.Unshown = append(s.Unshown, path)
		return
	}
	s.Patch += rest
}

// place finds the lines of the page that a group of changed lines can be suggested on. Those up to used are taken.
func (s *suggester) place(path string, g group, page map[int]rightLine, used int) (Suggestion, bool) {
	to := Suggestion{Path: path, Start: g.at, Line: g.at + len(g.old) - 1, Text: strings.Join(g.new, "")}
	if len(g.old) == 0 { // lines that are put in come with one that is there: the one before, or the one behind
		before, behind := page[g.at-1], page[g.at]
		switch {
		case before.hunk > 0 && g.at-1 > used:
			to.Start, to.Line, to.Text = g.at-1, g.at-1, before.text+to.Text
		case behind.hunk > 0:
			to.Line, to.Text = g.at, to.Text+behind.text
		}
	}
	for n := to.Start; n <= to.Line; n++ {
		there := page[n]
		if there.hunk == 0 || there.hunk != page[to.Start].hunk || len(g.old) > 0 && there.text != g.old[n-g.at] {
			return to, false
		}
	}
	_, exact := quote.Exact("suggestion", to.Text)
	return to, exact && !g.open && to.Start > used && to.Start <= to.Line && len(to.Text) <= s.most.Text && len(s.Suggestions) < s.most.Suggestions && s.redact(to.Text) == to.Text
}

// rightLine is a line of the head as the page shows it.
type rightLine struct {
	hunk int // counted from 1
	text string
}

// rightSide gives the lines of the head in a patch. One without a newline at the end of its file is left out: a suggestion ends it.
func rightSide(patch string) map[int]rightLine {
	lines, hunk, at, before := map[int]rightLine{}, 0, 0, byte(0)
	for line := range strings.Lines(patch + "\n") {
		switch mark := line[0]; {
		case mark == '@':
			hunk, at = hunk+1, hunkHead(line).new
		case mark == ' ', mark == '+':
			lines[at] = rightLine{hunk, line[1:]}
			at++
		case mark == '\\' && before != '-':
			delete(lines, at-1)
		}
		before = line[0]
	}
	return lines
}

// hunk is one of a diff; its lines keep their marks.
type hunk struct {
	head   position
	lines  []string
	groups []group
}

// group is lines that are replaced together.
type group struct {
	at        int      // the first line, at the head
	old, new  []string // without their marks
	from, to  int      // in the lines of the hunk
	open      bool     // a line of it has no newline at its end
	suggested bool
}

type position struct{ old, new int }

var hunkForm = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// hunkHead gives the first lines of a hunk on both sides. A side without lines names the one before.
func hunkHead(line string) (p position) {
	m := hunkForm.FindStringSubmatch(line)
	if m == nil {
		return p
	}
	p.old, _ = strconv.Atoi(m[1])
	p.new, _ = strconv.Atoi(m[3])
	return p
}

// rest is the hunk without what was suggested, as a patch on the head, and by how many lines it moves what follows; moved is the same
// for what comes before.
func (h hunk) rest(moved int) (text string, by int) {
	var b strings.Builder
	old, now, next, left := 0, 0, 0, false
	for i, line := range h.lines {
		for next < len(h.groups) && i >= h.groups[next].to {
			next++
		}
		if next < len(h.groups) && i >= h.groups[next].from {
			if h.groups[next].suggested && line[0] == '+' {
				continue
			} else if h.groups[next].suggested {
				line = " " + line[1:]
			} else {
				left = true
			}
		}
		if line[0] == ' ' || line[0] == '-' {
			old++
		}
		if line[0] == ' ' || line[0] == '+' {
			now++
		}
		b.WriteString(line)
	}
	if !left {
		return "", 0
	}
	at := h.head.old + moved
	switch {
	case old == 0: // a file that was empty or not there
		at = h.head.new
	case now == 0:
		at = 0
	}
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@\n%s", h.head.old, old, at, now, b.String()), now - old
}

// sections are the parts of a diff, one for each file.
func sections(diff string) (list []string) {
	begin := 0
	for at := 0; at < len(diff); {
		end := at + 1 + strings.IndexByte(diff[at:], '\n')
		if end == at {
			end = len(diff)
		}
		if at > begin && strings.HasPrefix(diff[at:], "diff --git ") { // lines of files have a mark before them
			list = append(list, diff[begin:at])
			begin = at
		}
		at = end
	}
	if begin < len(diff) {
		list = append(list, diff[begin:])
	}
	return list
}

// readSection reads one file of a diff.
func readSection(section string) (path, head string, hunks []hunk) {
	first, _, _ := strings.Cut(section, "\n")
	path = pathOf(first)
	at := 0
	for line := range strings.Lines(section) {
		switch {
		case line[0] == '@':
			hunks = append(hunks, hunk{head: hunkHead(line)})
			at = hunks[len(hunks)-1].head.old
		case len(hunks) == 0:
			head += line
		default:
			hunks[len(hunks)-1].add(line, &at)
		}
	}
	return path, head, hunks
}

// add takes up the next line; at is the line of the head that comes next.
func (h *hunk) add(line string, at *int) {
	i := len(h.lines)
	h.lines = append(h.lines, line)
	if line[0] == ' ' {
		*at++
		return
	}
	if n := len(h.groups); n == 0 || h.groups[n-1].to < i {
		if line[0] == '\\' { // of a line that stays
			return
		}
		h.groups = append(h.groups, group{at: *at, from: i})
	}
	g := &h.groups[len(h.groups)-1]
	g.to = i + 1
	switch line[0] {
	case '-':
		g.old = append(g.old, line[1:])
		*at++
	case '+':
		g.new = append(g.new, line[1:])
	default:
		g.open = true
	}
}

// pathOf reads the name of a file that has the same on both sides: "diff --git a/NAME b/NAME", each in quotes where git has to escape it.
func pathOf(line string) string {
	names := strings.TrimPrefix(line, "diff --git ")
	name := names[:len(names)/2]
	if plain, err := strconv.Unquote(name); err == nil {
		name = plain
	}
	return strings.TrimPrefix(name, "a/")
}

// plainForm is the head of a change of nothing but the lines of an ordinary file.
var plainForm = regexp.MustCompile(`^diff --git .*\nindex [0-9a-f]+\.\.[0-9a-f]+ 100(644|755)\n--- .*\n\+\+\+ .*\n$`)

func plainChange(head string) bool { return plainForm.MatchString(head) }
