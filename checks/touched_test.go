package checks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

func TestReadDiff(t *testing.T) {
	t.Parallel()
	diff := "diff --git a/sum.go b/sum.go\nindex 1..2 100644\n--- a/sum.go\n+++ b/sum.go\n@@ -3 +3,2 @@ func Sum() {\n-a\n+b\n+++ b/forged.go\n@@ -9,2 +10,0 @@\n-c\n-d\n" +
		"diff --git a/gone b/gone\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n" +
		"diff --git \"a/\\303\\244\\t.go\" \"b/\\303\\244\\t.go\"\n--- /dev/null\n+++ \"b/\\303\\244\\t.go\"\n@@ -0,0 +1,3 @@\n+1\n+2\n+3\n" +
		"diff --git a/a b.go b/a b.go\n--- a/a b.go\t\n+++ b/a b.go\t\n@@ -5,0 +6 @@\n+new\n"
	want := Touched{"sum.go": {{3, 4}}, "ä\t.go": {{1, 3}}, "a b.go": {{6, 6}}}
	if diff := cmp.Diff(want, ReadDiff([]byte(diff))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLinesOfTheChangeComeFirst also when there are far more findings elsewhere than are kept.
func TestLinesOfTheChangeComeFirst(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range annotationHeld + 10 {
		fmt.Fprintf(&log, "src/hello.c:%d: error: old\n", i+1)
	}
	log.WriteString("sum.go:9: error: in its file\nsum.go:3:7: warning: w\nsum.go:3:9: warning: w\nsum.go:4: error: e\n")
	f := Parse("", []byte(log.String()), Source{Tree: calc, Touched: Touched{"sum.go": {{3, 4}}}})
	first := Found{Annotations: f.Annotations[:4]}
	want := "failure sum.go:4:0 [] \"error: e\"\nwarning sum.go:3:7 [] \"warning: w\"\nfailure sum.go:9:0 [] \"error: in its file\"\nfailure src/hello.c:1:0 [] \"error: old\"\n"
	if diff := cmp.Diff(want, show(first)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if f.Near != 2 || len(f.Annotations) != annotationMax || f.Omitted != annotationHeld+13-annotationMax {
		t.Errorf("%d near, %d kept, %d omitted", f.Near, len(f.Annotations), f.Omitted)
	}
}

// TestExcuse holds whatever the base does not say against the change.
func TestExcuse(t *testing.T) {
	t.Parallel()
	failed := func(lines ...string) Result {
		r := Result{Check: Check{Name: "lint", Required: true}, Conclusion: Failure, Summary: "exit status 1", Exit: sandbox.Exit{Reason: sandbox.Exited}, Excerpt: "it failed in 3.2s"}
		for i, l := range lines {
			r.Annotations = append(r.Annotations, &github.CheckRunAnnotation{
				Path: github.String("a.go"), StartLine: github.Int(i + 1), AnnotationLevel: github.String("failure"), Message: github.String(l)})
		}
		return r
	}
	passed := failed()
	passed.Conclusion = Success
	cut := failed("old")
	cut.Omitted = 1
	slower := failed()
	slower.Excerpt = "it failed in 4.7s"
	for name, c := range map[string]struct {
		change, base Result
		excused      bool
	}{
		"the same, elsewhere":                   {failed("x is 1"), failed("other", "x is 2"), true},
		"only the time differs":                 {failed(), slower, true},
		"one more behind the old one":           {failed("old", "new"), failed("old"), false},
		"the same once more":                    {failed("old", "old"), failed("old"), false},
		"passes on the base":                    {failed("old"), passed, false},
		"not all is known":                      {cut, failed("old"), false},
		"fails there without naming what it is": {failed("old"), failed(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Excuse([]Result{c.change}, []Result{c.base}, "main", "0123456789")[0]
			if excused := got.Baseline != nil; excused != c.excused || strings.Contains(got.Summary, "fails on main too, since 0123456 or before") != c.excused {
				t.Errorf("excused %v, %q", excused, got.Summary)
			}
		})
	}
}
