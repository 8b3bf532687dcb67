package policy

import (
	"fmt"
	"slices"
	"strings"
)

// maxProblems bounds what one bad file can make the bot say.
const maxProblems = 50

// Position is where something stands in a file. Both count from 1; zero is unknown.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Problem is one thing that is wrong with a policy file.
type Problem struct {
	File string `json:"file"`
	Position
	Key     string `json:"key,omitempty"` // dotted path, such as checks[0].name
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String is "file:line:column: message (hint)".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": " + p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Invalid is the error of a file that cannot be used. It holds every problem that was found, in the order of the file.
type Invalid struct{ Problems []Problem }

func (e *Invalid) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func invalid(file, message, hint string) *Invalid {
	return &Invalid{Problems: []Problem{{File: file, Message: message, Hint: hint}}}
}

// didYouMean is a hint that names the closest of the known words, or all of them when none is close.
func didYouMean(word string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(strings.ToLower(word), k); d < distance && 2*d < len(k) {
			best, distance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	sorted := slices.Sorted(slices.Values(known))
	return "known: " + strings.Join(sorted, ", ")
}

// editDistance counts insertions, deletions, replacements and swaps of neighbours, of two short words.
func editDistance(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// quote shows a word of the file in a message: quoted, and cut when it is long.
func quote(s string) string {
	const limit = 60
	if len(s) > limit {
		return fmt.Sprintf("%.*q…", limit, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return fmt.Sprintf("%q", s)
}
