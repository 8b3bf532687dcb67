package checks

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// TestPages holds what a reader sees of a check for each way that it can end, as testdata/pages.md has it.
func TestPages(t *testing.T) {
	t.Parallel()
	const log = "=== RUN   TestSum\n    sum_test.go:7: Sum(1) = 0, want 1\n--- FAIL: TestSum (0.00s)\nFAIL\nFAIL\texample.com/acme/calc\t0.003s\n"
	base, _ := See(lint(), "0123456789", began)
	exited := func(code int) sandbox.Exit { return sandbox.Exit{Reason: sandbox.Exited, Code: code} }
	var pages strings.Builder
	for _, c := range []struct {
		name  string
		exit  sandbox.Exit
		log   string
		check Check
		base  func(Result) Seen
	}{
		{name: "passed", exit: exited(0), log: "ok  \texample.com/acme/calc\t0.003s\n", check: Check{Required: true}},
		{name: "passed with warnings", exit: exited(0), log: "sum.go:1: warning: magic number\n"},
		{name: "failed, the base is not known", exit: exited(1), log: log, check: Check{Required: true}},
		{name: "failed, not required, below a directory", exit: exited(1), log: "no\n", check: Check{Dir: "web"}},
		{name: "failed, passes on the base", exit: exited(1), log: log, check: Check{Required: true}, base: func(Result) Seen { return Seen{Commit: "0123456789", At: began} }},
		{name: "failed, as the base does", exit: exited(1), log: log, check: Check{Required: true}, base: func(r Result) Seen { s, _ := See(r, "0123456789", began); return s }},
		{name: "failed, more than the base does", exit: exited(1), log: log, check: Check{Required: true}, base: func(Result) Seen { return base }},
		{name: "failed without a host", exit: sandbox.Exit{Reason: sandbox.Exited, Code: 1, Blocked: []string{"registry.npmjs.org:443"}}, log: "npm error 403 Blocked by sandpiper\n"},
		{name: "a command that there is not", exit: exited(127), log: "/bin/sh: 1: golint: not found\n"},
		{name: "out of time", exit: sandbox.Exit{Reason: sandbox.TimedOut, Code: 137}, log: "waiting\nstill waiting\n", check: Check{Required: true}},
		{name: "out of memory", exit: sandbox.Exit{Reason: sandbox.OutOfMem, Code: 137, Message: "4 GiB"}, log: "linking\n", check: Check{Required: true}},
		{name: "killed", exit: sandbox.Exit{Reason: sandbox.Signaled, Code: 139}, log: "starting\n", check: Check{Required: true}},
		{name: "cancelled", exit: sandbox.Exit{Reason: sandbox.Cancelled}, log: "building\n", check: Check{Required: true}},
		{name: "lost", exit: sandbox.Exit{Reason: sandbox.Lost}, log: "building\n", check: Check{Required: true}},
	} {
		c.check.Name, c.check.Run = "test", cmp.Or(c.check.Run, "go test ./...")
		c.exit.Started, c.exit.Ended = began, began.Add(90*time.Second)
		res := judge(c.check, sandbox.CheckResult{Exit: c.exit, Log: write(t, c.log)}, Options{Tree: mapTree{"go.mod": "module example.com/acme/calc\n", "sum.go": "", "sum_test.go": ""}, Network: []string{"go"}}.withDefaults())
		if c.base != nil {
			res = Compare([]Result{res}, "main", map[string][]Seen{"test": {c.base(res)}})[0]
		}
		writePage(&pages, c.name, res)
	}
	writePage(&pages, "superseded before it ran", Superseded(Check{Name: "test", Run: "go test ./..."}, "superseded by a newer commit", began))
	if *rewrite {
		must(t, os.WriteFile("testdata/pages.md", []byte(pages.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/pages.md")
	must(t, err)
	if diff := gocmp.Diff(string(want), pages.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func writePage(b *strings.Builder, name string, res Result) {
	out := NewReporter(ReporterOptions{}).output(res, nil, "")
	fmt.Fprintf(b, "# %s\n\n**%s** — %s\n\n%s\n%s\n\n", name, RunName(res.Name), out.GetTitle(), out.GetSummary(), out.GetText())
}
