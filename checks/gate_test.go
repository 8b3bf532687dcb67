package checks

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"
)

// gates are the conclusions, or else the states, of all runs of the gate on the commit, the oldest first.
func (w *world) gates(t *testing.T) (states []string) {
	t.Helper()
	list, _, err := w.gh.Checks.ListCheckRunsForRef(t.Context(), w.target.Owner, w.target.Repo, w.target.HeadSHA,
		&github.ListCheckRunsOptions{CheckName: github.String(RunName(w.key.Check)), Filter: github.String("all")})
	must(t, err)
	slices.SortFunc(list.CheckRuns, func(a, b *github.CheckRun) int { return int(a.GetID() - b.GetID()) })
	for _, r := range list.CheckRuns {
		states = append(states, map[bool]string{true: r.GetConclusion(), false: r.GetStatus()}[r.GetConclusion() != ""])
	}
	return states
}

// TestGateLife: a gate waits, opens, closes again as a new run, is ended where nobody waits for it, and is none of that taken back.
func TestGateLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := func(open bool, title string) {
		t.Helper()
		must(t, w.reporter.Gate(t.Context(), w.gh, w.target, w.key, Gate{Open: open, Title: title, Summary: title}))
	}
	end := func() {
		t.Helper()
		must(t, w.reporter.EndGate(t.Context(), w.gh, w.target, w.key.Check, "superseded"))
	}
	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"nothing to end", end, nil},
		{"it waits", func() { gate(false, "waiting"); gate(false, "waiting for two") }, []string{"in_progress"}},
		{"it is ended", func() { end(); end() }, []string{"cancelled"}},
		{"somebody waits again", func() { gate(false, "waiting") }, []string{"cancelled", "in_progress"}},
		{"it opens", func() { gate(true, "open"); gate(true, "open") }, []string{"cancelled", "success"}},
		{"a success is not taken back", end, []string{"cancelled", "success"}},
		{"it closes", func() { gate(false, "an objection") }, []string{"cancelled", "success", "in_progress"}},
		{"and is ended, and opens", func() { end(); gate(true, "open") }, []string{"cancelled", "success", "cancelled", "success"}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, w.gates(t)); diff != "" {
			t.Fatalf("%s (-want +got)\n%s", step.what, diff)
		}
	}
}
