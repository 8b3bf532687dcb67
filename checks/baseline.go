package checks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// Baseline is what a check that failed does on the commit that the change is for.
type Baseline struct {
	Branch string   `json:"branch"`
	Commit string   `json:"commit"`
	Held   bool     `json:"held,omitempty"`   // against the change: it passes there, or says less
	Passes bool     `json:"passes,omitempty"` // there
	New    []string `json:"new,omitempty"`    // what it says here and not there, at most newShown, by file and line
	News   int      `json:"news,omitempty"`   // how many there are of those
}

const newShown = 10

// Excused says whether a failure is not held against the change, since the base fails in the same way.
func (r Result) Excused() bool { return r.Baseline != nil && !r.Baseline.Held }

// Seen is what a check did on one commit of a base branch, as it is kept.
type Seen struct {
	Commit string    `json:"commit"`
	At     time.Time `json:"at"` // of the commit
	Failed bool      `json:"failed,omitempty"`
	Says   []string  `json:"says,omitempty"` // what a failure says, by digests
}

// See takes what is kept of a result on a base commit; ok is false of one that says nothing about it, as when it ran out of time.
func See(r Result, commit string, at time.Time) (s Seen, ok bool) {
	s = Seen{Commit: commit, At: at, Failed: r.Conclusion == Failure}
	if s.Failed {
		for _, f := range findings(r) {
			s.Says = append(s.Says, f.digest)
		}
	}
	return s, s.Failed || r.Conclusion == Success
}

// Suspects are the checks that were seen to fail: those whose failure may be older than the change.
func Suspects(results []Result) []Check {
	var list []Check
	for _, r := range results {
		if r.Conclusion == Failure {
			list = append(list, r.Check)
		}
	}
	return list
}

// Compare says of each failure what the check does on the base: seen has what is known of it, by its name, of the base first and then of
// commits before that, newest first. A failure that says anything which the base's does not say is held against the change, and so is
// one that cannot be compared because not all of it is known.
func Compare(results []Result, branch string, seen map[string][]Seen) []Result {
	results = slices.Clone(results)
	for i, r := range results {
		if known := seen[r.Name]; len(known) > 0 && r.Conclusion == Failure {
			said := ""
			results[i].Baseline, said = compare(r, branch, known)
			results[i].Summary = said + "; " + r.Summary
		}
	}
	return results
}

func compare(r Result, branch string, known []Seen) (*Baseline, string) {
	base := known[0]
	b := &Baseline{Branch: branch, Commit: base.Commit, Held: true, Passes: !base.Failed}
	if b.Passes {
		return b, fmt.Sprintf("fails here and passes on %s (%.7s)", branch, base.Commit)
	}
	there := map[string]int{}
	for _, digest := range base.Says {
		there[digest]++
	}
	all := findings(r)
	var fresh []finding
	for _, f := range all {
		if there[f.digest]--; there[f.digest] < 0 {
			fresh = append(fresh, f)
		}
	}
	if slices.ContainsFunc(fresh, func(f finding) bool { return f.placed }) { // lines of the log that say it again are no findings more
		unplaced := func(f finding) bool { return !f.placed }
		all, fresh = slices.DeleteFunc(all, unplaced), slices.DeleteFunc(fresh, unplaced)
	}
	b.News = len(fresh)
	for _, f := range fresh[:min(len(fresh), newShown)] {
		b.New = append(b.New, f.shown)
	}
	partly := r.Omitted > 0 || len(r.Failing) > failingMost
	switch {
	case b.News > 0 && partly:
		return b, fmt.Sprintf("fails on %s too, and says what is new here", branch)
	case b.News > 0:
		return b, fmt.Sprintf("fails on %s too, new here: %d of %d findings", branch, b.News, len(all))
	case partly:
		return b, fmt.Sprintf("fails on %s too, and says too much to be compared", branch)
	}
	b.Held = false
	return b, fmt.Sprintf("fails on %s too, since %s", branch, since(known))
}

// since names the oldest commit from which on a check failed on all that is known.
func since(known []Seen) string {
	first := 0
	for first+1 < len(known) && known[first+1].Failed {
		first++
	}
	text := fmt.Sprintf("%.7s of %s", known[first].Commit, known[first].At.UTC().Format(time.DateOnly))
	if first+1 < len(known) {
		return text + fmt.Sprintf(" (it passed at %.7s)", known[first+1].Commit)
	}
	return text + " or before"
}

// finding is one thing that a failure says: for people, and for comparing.
type finding struct {
	shown, digest string
	placed        bool // on a line of the tree
}

// findings are what a failure says: its annotations, and lines of its log that tell of one and are not in those. Warnings count where it
// names nothing worse: some linters fail for them.
func findings(r Result) (all []finding) {
	var messages []string
	grave := func(a *github.CheckRunAnnotation) bool { return a.GetAnnotationLevel() == "failure" }
	mild := !slices.ContainsFunc(r.Annotations, grave)
	for _, a := range r.Annotations {
		if mild || grave(a) {
			message, _, _ := strings.Cut(a.GetMessage(), "\n")
			messages = append(messages, message)
			all = append(all, finding{placed(a), digest(r, a.GetPath()+" "+a.GetTitle()+" "+a.GetMessage()), true})
		}
	}
	for _, line := range r.Failing {
		if !slices.ContainsFunc(messages, func(m string) bool { return strings.Contains(line, m) }) {
			all = append(all, finding{line, digest(r, line), false})
		}
	}
	if all == nil { // it died without a word
		all = append(all, finding{r.Summary, digest(r, "exit status "+string(rune('A'+r.Exit.Code))), false}) // digits would not count
	}
	return all
}

// placed is an annotation in one line.
func placed(a *github.CheckRunAnnotation) string {
	line, _, _ := strings.Cut(a.GetMessage(), "\n")
	return fmt.Sprintf("%s:%d: %s", a.GetPath(), a.GetStartLine(), line)
}

// changing is what differs from run to run and from tree to tree: addresses, line numbers, times.
var changing = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

func digest(r Result, text string) string {
	sum := sha256.Sum256([]byte(string(r.Exit.Reason) + " " + changing.ReplaceAllString(text, "")))
	return hex.EncodeToString(sum[:16])
}

// failingMost bounds Result.Failing. A failure that says more is not compared.
const failingMost = 200

// failingLines are the lines of a log that tell of a failure. Where no line has one of the words for it, and no annotation says it, all lines do.
func failingLines(log []byte, annotated bool, redact func(string) string) (lines []string) {
	at := map[int]bool{} // starts of lines
	take := func(i int) { at[bytes.LastIndexByte(log[:i], '\n')+1] = true }
	for _, w := range failureWords {
		for i := bytes.Index(log, w); i >= 0 && len(at) <= failingMost; {
			take(i)
			next := bytes.Index(log[i+len(w):], w)
			if next < 0 {
				break
			}
			i += len(w) + next
		}
	}
	if len(at) == 0 && !annotated {
		for i := 0; i < len(log) && len(at) <= failingMost; i++ {
			take(i)
			if end := bytes.IndexByte(log[i:], '\n'); end >= 0 {
				i += end
			} else {
				break
			}
		}
	}
	for _, start := range slices.Sorted(maps.Keys(at)) {
		line, _, _ := bytes.Cut(log[start:], []byte("\n"))
		if text := tidy(line, redact); strings.TrimSpace(text) != "" {
			lines = append(lines, quote.Cut(text, 200, "…"))
		}
	}
	return lines
}
