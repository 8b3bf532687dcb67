package checks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
