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

// Excuse marks the results that fail in the same way on the base. What was not seen to fail there with the same first finding is
// held against the change.
func Excuse(results, onBase []Result, branch, commit string) []Result {
	results = slices.Clone(results)
	for i, r := range results {
		at := slices.IndexFunc(onBase, func(b Result) bool { return b.Name == r.Name })
		if at < 0 || !r.Required || r.Conclusion != Failure || onBase[at].Conclusion != Failure || finding(r) != finding(onBase[at]) {
			continue
		}
		results[i].Baseline = &Baseline{Branch: branch, Commit: commit}
		results[i].Summary = "fails on " + branch + " too, since " + commit[:min(7, len(commit))] + " or before; " + r.Summary
	}
	return results
}

// finding is what a failure says first, without what changes from run to run and from tree to tree: line numbers, times.
func finding(r Result) string {
	text := r.Excerpt
	if len(r.Annotations) > 0 {
		text = r.Annotations[0].GetPath() + " " + r.Annotations[0].GetTitle() + " " + r.Annotations[0].GetMessage()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return string(r.Exit.Reason) + " " + strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, line)
}
