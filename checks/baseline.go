package checks

import (
	"slices"
	"strings"
)

// Baseline is what a check that failed did on the commit that the change is for.
type Baseline struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

// Suspects are the required checks that were seen to fail: those whose failure may be older than the change.
func Suspects(results []Result) []Check {
	var list []Check
	for _, r := range results {
		if r.Required && r.Conclusion == Failure {
			list = append(list, r.Check)
		}
	}
	return list
}

// Excuse marks the results that fail in the same way on the base. A failure that says anything which the base's does not say is held
// against the change, and so is one that cannot be compared because not all of it is known.
func Excuse(results, onBase []Result, branch, commit string) []Result {
	results = slices.Clone(results)
	for i, r := range results {
		at := slices.IndexFunc(onBase, func(b Result) bool { return b.Name == r.Name })
		if at < 0 || !r.Required || r.Conclusion != Failure || onBase[at].Conclusion != Failure || r.Omitted > 0 || !within(r, onBase[at]) {
			continue
		}
		results[i].Baseline = &Baseline{Branch: branch, Commit: commit}
		results[i].Summary = "fails on " + branch + " too, since " + commit[:min(7, len(commit))] + " or before; " + r.Summary
	}
	return results
}

// within says whether all that a failure says was said on the base too, as often.
func within(r, base Result) bool {
	there := map[string]int{}
	for _, f := range findings(base) {
		there[f]++
	}
	for _, f := range findings(r) {
		if there[f]--; there[f] < 0 {
			return false
		}
	}
	return true
}

// findings are what a failure says, without what changes from run to run and from tree to tree: line numbers, times. Without
// annotations it is the line where it failed.
func findings(r Result) (all []string) {
	for _, a := range r.Annotations {
		if a.GetAnnotationLevel() == "failure" {
			all = append(all, a.GetPath()+" "+a.GetTitle()+" "+a.GetMessage())
		}
	}
	if all == nil {
		line, _, _ := strings.Cut(strings.TrimSpace(r.Excerpt), "\n")
		all = append(all, line)
	}
	for i, text := range all {
		all[i] = string(r.Exit.Reason) + " " + strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' {
				return -1
			}
			return c
		}, text)
	}
	return all
}
