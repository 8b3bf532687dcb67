package checks

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// TestHostileAnnotationsAreTaken: whatever a caller makes of annotations, GitHub gets ones that it takes, and the rest is counted.
func TestHostileAnnotationsAreTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list, _ := annotations(50_000)
	for i, spoil := range []func(*github.CheckRunAnnotation){
		func(a *github.CheckRunAnnotation) { a.Message = github.String(strings.Repeat("ä", 1<<20)) },
		func(a *github.CheckRunAnnotation) { a.Message = github.String("a\xff\x00\u202eb hunter2") },
		func(a *github.CheckRunAnnotation) { a.Message = nil },
		func(a *github.CheckRunAnnotation) { a.Path = github.String("a\xffb.go") },
		func(a *github.CheckRunAnnotation) { a.StartLine, a.EndLine = github.Int(0), github.Int(0) },
		func(a *github.CheckRunAnnotation) { a.StartLine, a.EndLine = github.Int(9), github.Int(3) },
		func(a *github.CheckRunAnnotation) {
			a.EndLine, a.StartColumn, a.EndColumn = github.Int(2), github.Int(1), github.Int(1)
		},
		func(a *github.CheckRunAnnotation) { a.StartColumn, a.EndColumn = github.Int(5), github.Int(1) },
		func(a *github.CheckRunAnnotation) { a.StartColumn, a.EndColumn = github.Int(0), github.Int(0) },
		func(a *github.CheckRunAnnotation) { a.Title = github.String(strings.Repeat("t\n", 5000)) },
		func(a *github.CheckRunAnnotation) { *a = *list[40] }, // twice the same
	} {
		spoil(list[i])
	}
	res := failed(list)
	for range 2 { // what is there already is known again
		run, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, res)
		must(t, err)
		summary := run.GetOutput().GetSummary()
		if run.GetConclusion() != "failure" || strings.Contains(summary, "did not take") || !strings.Contains(summary, "49500 annotations more were found") {
			t.Errorf("%s\n%s", run.GetConclusion(), summary)
		}
		got := w.annotations(t, run.GetID())
		if len(got) != annotationMax {
			t.Errorf("%d annotations, want %d", len(got), annotationMax)
		}
		for _, m := range got {
			if strings.Contains(m, "hunter2") || len(m) > messageMax || !utf8.ValidString(m) {
				t.Errorf("message of %d bytes: %.80q", len(m), m)
			}
		}
	}
	if n := w.server.CallCount(http.MethodPatch, "/repos/{owner}/{repo}/check-runs/{check_run_id}"); n != annotationMax/batch {
		t.Errorf("%d updates, want %d", n, annotationMax/batch)
	}
}

// TestHostileLogIsTaken from its lines to the Check Run.
func TestHostileLogIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log strings.Builder
	log.WriteString("sum.go:1:99999999: col\nsum.go:1:5: " + strings.Repeat("x", 1<<20) + "\nsum.go:2: b\xff\x00ad\n../../etc/passwd:1: x\n/etc/passwd:1: x\nsum.go:0: zero\nsum.go:-1: less\n")
	log.WriteString(`{"version":"2.1.0","runs":[{"results":[{"message":{"text":"far"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"sum.go"},` +
		`"region":{"startLine":9223372036854775807,"startColumn":1}}},{"physicalLocation":{"artifactLocation":{"uri":"../sum.go"},"region":{"startLine":-3,"startColumn":-1}}},` +
		`{"physicalLocation":{"artifactLocation":{"uri":"sum.go"},"region":{"startLine":-3,"startColumn":99999999999}}}]}]}]}` + "\n")
	log.WriteString("::error file=sum.go,line=7,endLine=3,col=9,endColumn=2,title=" + strings.Repeat("t", 5000) + "::m\n")
	for i := range 50_000 {
		fmt.Fprintf(&log, "sum.go:%d:%d: problem %d\n", i%1000+1, i%7, i)
	}
	res := judge(Check{Name: "test", Run: "x"}, sandbox.CheckResult{
		Exit: sandbox.Exit{Reason: sandbox.Exited, Code: 1, Started: began, Ended: began.Add(time.Second)}, Log: write(t, log.String()),
	}, Options{Tree: mapTree{"sum.go": ""}}.withDefaults())
	run, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, res)
	must(t, err)
	if s := run.GetOutput().GetSummary(); strings.Contains(s, "did not take") || !strings.Contains(s, "annotations more were found") {
		t.Error(s)
	}
	if n := len(w.annotations(t, run.GetID())); n != annotationMax {
		t.Errorf("%d annotations, want %d", n, annotationMax)
	}
}

// write makes a file of a text.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
