package checks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// lint is a check that failed and named these, each on a line of its own.
func lint(messages ...string) Result {
	r := Result{Check: Check{Name: "lint", Run: "make lint", Required: true}, Conclusion: Failure, Summary: "exit status 1", Exit: sandbox.Exit{Reason: sandbox.Exited, Code: 1}}
	for i, m := range messages {
		r.Annotations = append(r.Annotations, &github.CheckRunAnnotation{
			Path: github.String("a.go"), StartLine: github.Int(i + 1), AnnotationLevel: github.String("failure"), Message: github.String(m)})
	}
	return r
}

// with changes a result.
func with(r Result, change func(*Result)) Result {
	change(&r)
	return r
}

// TestCompare holds whatever the base does not say against the change.
func TestCompare(t *testing.T) {
	t.Parallel()
	printed := func(log string) Result {
		return with(lint(), func(r *Result) { r.Failing = failingLines([]byte(log), false, strings.Clone) })
	}
	cut := with(lint("old"), func(r *Result) { r.Omitted = 1 })
	many := with(lint(), func(r *Result) { r.Failing = make([]string, failingMost+1) })
	two := with(lint("old"), func(r *Result) { r.Failing = []string{"a.go:1: old", "--- FAIL: TestB (0.00s)"} })
	warned := func(messages ...string) Result {
		r := lint(messages...)
		for _, a := range r.Annotations {
			a.AnnotationLevel = github.String("warning")
		}
		return r
	}
	same := "fails on main too, since 0123456 of 2026-11-29 or before"
	for name, c := range map[string]struct {
		change, base Result
		says         string
	}{
		"the same, elsewhere":                    {lint("x is 1"), lint("other", "x is 2"), same},
		"only the time differs":                  {printed("it failed in 3.2s"), printed("it failed in 4.7s"), same},
		"only an address differs":                {printed("panic: at 0xc000a0"), printed("panic: at 0xc0bbb0"), same},
		"one more behind the old one":            {lint("old", "new"), lint("old"), "fails on main too, new here: 1 of 2 findings"},
		"the same once more":                     {lint("old", "old"), lint("old"), "fails on main too, new here: 1 of 2 findings"},
		"passes on the base":                     {lint("old"), with(lint(), func(r *Result) { r.Conclusion = Success }), "fails here and passes on main (0123456)"},
		"not all is known":                       {cut, lint("old"), "fails on main too, and says too much to be compared"},
		"not all is known, and something is new": {with(cut, func(r *Result) { r.Annotations = lint("new").Annotations }), lint("old"), "fails on main too, and says what is new here"},
		"too many lines":                         {many, many, "fails on main too, and says too much to be compared"},
		"fails there without naming what it is":  {lint("old"), lint(), "fails on main too, new here: 1 of 1 findings"},
		"another test behind the same lines":     {printed("ok\nok\nok\nFAIL TestB"), printed("ok\nok\nok\nFAIL TestA"), "fails on main too, new here: 1 of 1 findings"},
		"no word for it at all":                  {printed("a is broken\nb is broken"), printed("a is broken"), "fails on main too, new here: 1 of 2 findings"},
		"another test, without a line":           {two, with(lint("old"), func(r *Result) { r.Failing = []string{"a.go:1: old"} }), "fails on main too, new here: 1 of 2 findings"},
		"one more warning, for which it fails":   {warned("old", "new"), warned("old"), "fails on main too, new here: 1 of 2 findings"},
		"dies silently":                          {lint(), lint(), same},
		"dies silently in another way":           {lint(), with(lint(), func(r *Result) { r.Exit.Code = 2 }), "fails on main too, new here: 1 of 1 findings"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen, ok := See(c.base, "0123456789", began)
			got := Compare([]Result{c.change}, "main", map[string][]Seen{"lint": {seen}})[0]
			if diff := cmp.Diff(c.says+"; exit status 1", got.Summary); diff != "" || !ok {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.Excused() != (c.says == same) || Passed([]Check{got.Check}, []Result{got}) != got.Excused() {
				t.Errorf("excused %v", got.Excused())
			}
		})
	}
}

// TestCompareSaysSinceWhen from what was seen of older commits of the branch.
func TestCompareSaysSinceWhen(t *testing.T) {
	t.Parallel()
	at := func(commit string, days int, failed bool) Seen {
		r := with(lint("old"), func(r *Result) {
			if !failed {
				r.Conclusion = Success
			}
		})
		s, _ := See(r, commit, began.AddDate(0, 0, -days))
		return s
	}
	base := at("aaaaaaaaaa", 0, true)
	for want, older := range map[string][]Seen{
		"aaaaaaa of 2026-11-29 or before":              nil,
		"bbbbbbb of 2026-11-24 or before":              {at("cccccccccc", 3, true), at("bbbbbbbbbb", 5, true)},
		"cccccc1 of 2026-11-26 (it passed at ddddddd)": {at("cccccc1111", 3, true), at("dddddddddd", 4, false), at("bbbbbbbbbb", 5, true)},
		"aaaaaaa of 2026-11-29 (it passed at eeeeeee)": {at("eeeeeeeeee", 1, false)},
	} {
		got := Compare([]Result{lint("old")}, "main", map[string][]Seen{"lint": append([]Seen{base}, older...)})[0]
		if got, want := got.Summary, "fails on main too, since "+want+"; exit status 1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestCompareLeavesAlone what did not fail, and what is not known of the base.
func TestCompareLeavesAlone(t *testing.T) {
	t.Parallel()
	late := with(lint(), func(r *Result) { r.Conclusion = TimedOut })
	if _, ok := See(late, "0123456789", time.Time{}); ok {
		t.Error("a check that ran out of time says something about the base")
	}
	base, _ := See(lint(), "0123456789", began)
	passed := with(lint(), func(r *Result) { r.Conclusion = Success })
	other := with(lint(), func(r *Result) { r.Name = "other" })
	results := []Result{late, passed, other}
	if diff := cmp.Diff(results, Compare(results, "main", map[string][]Seen{"lint": {base}})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := len(Suspects(append(results, lint()))); got != 2 {
		t.Errorf("%d suspects, want 2", got)
	}
}

// TestNewFindingsAreListed on the page, as many as fit.
func TestNewFindingsAreListed(t *testing.T) {
	t.Parallel()
	var messages []string
	for i := range 14 {
		messages = append(messages, fmt.Sprintf("problem %c @octocat", 'a'+rune(i)))
	}
	base, _ := See(lint(messages[0]), "0123456789", began)
	res := Compare([]Result{lint(messages...)}, "main", map[string][]Seen{"lint": {base}})[0]
	page := NewReporter(ReporterOptions{}).summary(res, "")
	for _, want := range []string{"fails too, but does not say:", "\na.go:2: problem b @octocat\n", "\n… and 3 more\n", "**failure** · required by the policy"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	if strings.Contains(outsideCode(page), "@octocat") || strings.Contains(page, "problem a") {
		t.Errorf("the page:\n%s", page)
	}
}

// TestFailingLines are whole lines, each once, however many words of failure it has.
func TestFailingLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log       string
		annotated bool
		want      []string
	}{
		"words":                  {"ok\nFAIL: error: x\n\x1b[31mpanic: y\x1b[0m\r\nend\n", false, []string{"FAIL: error: x", "panic: y"}},
		"no word":                {"a\n\nb", false, []string{"a", "b"}},
		"no word, but annotated": {"a\n\nb", true, nil},
		"nothing":                {"", false, nil},
		"the first and the last": {"FAIL\nx\nFAIL", false, []string{"FAIL", "FAIL"}},
		"a secret":               {"FAIL hunter2\n", false, []string{"FAIL [secret]"}},
	} {
		got := failingLines([]byte(c.log), c.annotated, func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if n := len(failingLines([]byte(strings.Repeat("FAIL\n", 1000)), false, strings.Clone)); n != failingMost+1 {
		t.Errorf("%d lines, want %d", n, failingMost+1)
	}
}
