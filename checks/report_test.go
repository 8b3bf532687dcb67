package checks

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	double "github.com/sandpiper-bot/sandpiper/fixtures/github"
)

func TestReporterLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list, messages := annotations(3)
	for range 2 { // each step twice: a step that was cut off is done again
		run, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key)
		must(t, err)
		if run.GetStatus() != "queued" || run.GetName() != "sandpiper / test" || run.GetExternalID() != "v1:m-1:r-1-1:test:1" {
			t.Errorf("queued: %s %q %q", run.GetStatus(), run.GetName(), run.GetExternalID())
		}
	}
	for range 2 {
		run, err := w.reporter.Start(t.Context(), w.gh, w.target, w.key, began)
		must(t, err)
		if run.GetStatus() != "in_progress" || !run.GetStartedAt().Equal(github.Timestamp{Time: began}) || run.GetName() != "sandpiper / test" {
			t.Errorf("started: %s at %v, named %q", run.GetStatus(), run.GetStartedAt(), run.GetName())
		}
	}
	open, err := w.reporter.OpenRuns(t.Context(), w.gh, w.target)
	must(t, err)
	if len(open) != 1 {
		t.Errorf("%d open runs, want 1", len(open))
	}
	for range 2 {
		run, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(list))
		must(t, err)
		if run.GetStatus() != "completed" || run.GetConclusion() != "failure" || !run.GetCompletedAt().Equal(github.Timestamp{Time: began.Add(time.Minute)}) {
			t.Errorf("completed: %s %s at %v", run.GetStatus(), run.GetConclusion(), run.GetCompletedAt())
		}
	}
	runs := w.runs(t)
	if len(runs) != 1 {
		t.Fatalf("%d check runs, want 1", len(runs))
	}
	if diff := cmp.Diff(messages, w.annotations(t, runs[0].GetID())); diff != "" {
		t.Errorf("annotations (-want +got)\n%s", diff)
	}
	if open, err = w.reporter.OpenRuns(t.Context(), w.gh, w.target); err != nil || len(open) != 0 {
		t.Errorf("open runs at the end: %v, %v", open, err)
	}
	run, err := w.reporter.Start(t.Context(), w.gh, w.target, w.key, began)
	if err != nil || run.GetStatus() != "completed" {
		t.Errorf("a late start made it %s, %v", run.GetStatus(), err)
	}
}

func TestCase30ManyAnnotationsAndMuchText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list, messages := annotations(143)
	res := failed(list)
	res.LogTail = strings.Repeat("ä```\n", 20_000)
	res.Excerpt = strings.Repeat("@octocat ", 10_000)
	res.Summary = strings.Repeat("long ", 1000)
	res.Omitted = 7
	run, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, res)
	must(t, err)
	if diff := cmp.Diff(messages, w.annotations(t, run.GetID())); diff != "" {
		t.Errorf("annotations (-want +got)\n%s", diff)
	}
	out := run.GetOutput()
	for name, s := range map[string]string{"title": out.GetTitle(), "summary": out.GetSummary(), "text": out.GetText()} {
		if len(s) > textMax || !utf8.ValidString(s) {
			t.Errorf("%s of %d bytes, valid %v", name, len(s), utf8.ValidString(s))
		}
	}
	if !strings.Contains(out.GetText(), "truncated") || !strings.Contains(out.GetSummary(), "7 annotations more") {
		t.Error("does not say what is left out")
	}
	if n := w.server.CallCount(http.MethodPatch, "/repos/{owner}/{repo}/check-runs/{check_run_id}"); n != 3 {
		t.Errorf("%d updates, want 3 batches", n)
	}
}

func TestCompleteGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list, messages := annotations(120)
	// The second batch is cut off at every try and the first batch arrives once: as if the bot had died in between.
	must(t, w.server.AddFault(double.Fault{Method: http.MethodGet, Path: "annotations", Times: 1, Status: 403, Message: "Resource not accessible by integration"}))
	if _, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(list)); err == nil {
		t.Fatal("no error although nothing could be read")
	}
	id := w.runs(t)[0].GetID()
	_, err := w.reporter.patch(t.Context(), w.gh, w.target, id, update{UpdateCheckRunOptions: github.UpdateCheckRunOptions{
		Name: RunName("test"), Status: github.String("in_progress"), Output: w.reporter.output(failed(list), list[:50], ""),
	}})
	must(t, err)
	if w.runs(t)[0].GetStatus() != "in_progress" {
		t.Fatal("completed too early")
	}
	_, err = w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(list))
	must(t, err)
	if diff := cmp.Diff(messages, w.annotations(t, id)); diff != "" {
		t.Errorf("annotations (-want +got)\n%s", diff)
	}
}

func TestAmbiguousAnswersDoNotDouble(t *testing.T) {
	t.Parallel()
	for _, f := range []double.Fault{
		{Method: http.MethodPost, Path: "/check-runs$", Status: 502, AfterEffect: true},
		{Method: http.MethodPost, Path: "/check-runs$", Status: 502},
		{Method: http.MethodPatch, Path: "/check-runs/", Status: 502, AfterEffect: true},
		{Method: http.MethodPatch, Path: "/check-runs/", Status: 500, Times: 2},
		{Method: http.MethodPatch, Path: "/check-runs/", Hangup: true, AfterEffect: true},
	} {
		w := newWorld(t)
		list, messages := annotations(60)
		must(t, w.server.AddFault(f))
		_, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(list))
		if err != nil {
			_, err = w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(list)) // the next tick
		}
		must(t, err)
		runs := w.runs(t)
		if len(runs) != 1 || runs[0].GetConclusion() != "failure" {
			t.Fatalf("%+v: %d runs, %s", f, len(runs), runs[0].GetConclusion())
		}
		if diff := cmp.Diff(messages, w.annotations(t, runs[0].GetID())); diff != "" {
			t.Errorf("%+v: annotations (-want +got)\n%s", f, diff)
		}
	}
}

func TestConcludesWithoutAnnotationsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*world, *Result){
		"rejected": func(_ *world, r *Result) { r.Annotations[2].AnnotationLevel = github.String("grave") },
		"server down": func(w *world, _ *Result) {
			must(t, w.server.AddFault(double.Fault{Method: http.MethodPatch, Path: "/check-runs/", Status: 503, Times: completions}))
		},
	} {
		w := newWorld(t)
		list, _ := annotations(5)
		res := failed(list)
		_, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key)
		must(t, err)
		spoil(w, &res)
		run, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, res)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if run.GetConclusion() != "failure" || !strings.Contains(run.GetOutput().GetSummary(), "GitHub did not take all of the 5 annotations") {
			t.Errorf("%s: %s\n%s", name, run.GetConclusion(), run.GetOutput().GetSummary())
		}
	}
}

func TestCompleteOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	run, err := w.reporter.Complete(ctx, w.gh, w.target, w.key, Superseded(Check{Name: "test", Run: "x"}, "superseded by a newer commit", began))
	must(t, err)
	if run.GetConclusion() != "cancelled" || run.GetOutput().GetTitle() != "superseded by a newer commit" {
		t.Errorf("%s: %s", run.GetConclusion(), run.GetOutput().GetTitle())
	}
}

func TestCancellingDoesNotTakeBackAResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, Superseded(Check{Name: "test"}, "not needed", began))
	must(t, err)
	for _, res := range []Result{failed(nil), Superseded(Check{Name: "test"}, "superseded", began)} {
		run, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, res)
		must(t, err)
		if run.GetConclusion() != "failure" {
			t.Errorf("after %s it is %s", res.Conclusion, run.GetConclusion())
		}
	}
}

func TestReporterOneRunForCallersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := len(w.runs(t)); n != 1 {
		t.Errorf("%d check runs, want 1", n)
	}
	if n := len(w.reporter.lanes); n != 0 {
		t.Errorf("%d lanes left", n)
	}
}

func TestRerunIsANewRunOfTheSameName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(nil))
	must(t, err)
	second, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key.Next())
	must(t, err)
	if first.GetID() == second.GetID() || first.GetName() != second.GetName() || second.GetExternalID() != "v1:m-1:r-1-1:test:2" {
		t.Errorf("%d %q, %d %q %q", first.GetID(), first.GetName(), second.GetID(), second.GetName(), second.GetExternalID())
	}
}

func TestCompleteEndsTwins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 { // two processes that raced
		_, _, err := w.gh.Checks.CreateCheckRun(t.Context(), w.target.Owner, w.target.Repo, github.CreateCheckRunOptions{
			Name: RunName("test"), HeadSHA: w.target.HeadSHA, ExternalID: github.String(w.key.String()),
		})
		must(t, err)
	}
	_, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(nil))
	must(t, err)
	for _, run := range w.runs(t) {
		if run.GetConclusion() != "failure" {
			t.Errorf("twin %d is %s", run.GetID(), run.GetStatus())
		}
	}
}

func TestAnotherAppsRunIsNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.server.AddApp(double.AppOptions{Owner: "octavia", Name: "forger", Permissions: map[string]string{"checks": "write"}})
	must(t, err)
	inst, err := w.server.Install("forger", "octavia")
	must(t, err)
	forger := client(t, w.server, "forger", inst.ID)
	forged, _, err := forger.Checks.CreateCheckRun(t.Context(), w.target.Owner, w.target.Repo, github.CreateCheckRunOptions{
		Name: RunName("test"), HeadSHA: w.target.HeadSHA, ExternalID: github.String(w.key.String()), Status: github.String("completed"), Conclusion: github.String("success"),
	})
	must(t, err)
	run, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(nil))
	must(t, err)
	if run.GetID() == forged.GetID() || run.GetConclusion() != "failure" {
		t.Errorf("took the forged run %d: %s", run.GetID(), run.GetConclusion())
	}
}

// TestCompleteAllCostsOneCallMore than there are checks, and again finds what is there.
func TestCompleteAllCostsOneCallMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list, _ := annotations(3)
	other := w.key
	other.Check = "lint"
	all := []Final{{w.key, failed(list)}, {other, failed(nil)}}
	w.server.ResetCallCounts()
	must(t, w.reporter.CompleteAll(t.Context(), w.gh, w.target, all))
	if got := w.server.CallCount("", ""); got != 3 {
		t.Errorf("%d calls for two checks, want 3", got)
	}
	must(t, w.reporter.CompleteAll(t.Context(), w.gh, w.target, all))
	runs, _, err := w.gh.Checks.ListCheckRunsForRef(t.Context(), w.target.Owner, w.target.Repo, w.target.HeadSHA, nil)
	must(t, err)
	if runs.GetTotal() != 2 {
		t.Fatalf("%d runs, want 2", runs.GetTotal())
	}
	for _, run := range runs.CheckRuns {
		if run.GetConclusion() != "failure" {
			t.Errorf("%s is %s %s", run.GetName(), run.GetStatus(), run.GetConclusion())
		}
	}
}

func TestReporterErrors(t *testing.T) {
	t.Parallel()
	t.Run("unknown commit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.target.HeadSHA = strings.Repeat("1", 40)
		if _, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key); !errors.Is(err, ErrNoCommit) {
			t.Errorf("got %v, want %v", err, ErrNoCommit)
		}
	})
	t.Run("repository gone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.target.Repo = "gone"
		if _, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key); !errors.Is(err, ErrGone) {
			t.Errorf("got %v, want %v", err, ErrGone)
		}
	})
	t.Run("run vanished", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key)
		must(t, err)
		must(t, w.server.AddFault(double.Fault{Method: http.MethodPatch, Path: "/check-runs/", Status: 404, Times: -1}))
		if _, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(nil)); !errors.Is(err, ErrGone) {
			t.Errorf("got %v, want %v", err, ErrGone)
		}
	})
	t.Run("rate limit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key)
		must(t, err)
		must(t, w.server.AddFault(double.SecondaryLimit(http.MethodPatch, "/check-runs/", -1, time.Minute)))
		_, err = w.reporter.Complete(t.Context(), w.gh, w.target, w.key, failed(nil))
		var limited *github.AbuseRateLimitError
		if !errors.As(err, &limited) || limited.GetRetryAfter() != time.Minute {
			t.Errorf("got %v, want to be told to wait a minute", err)
		}
	})
}

func TestOutputIsHarmless(t *testing.T) {
	t.Parallel()
	r := NewReporter(ReporterOptions{Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") }})
	evil := "@octocat fixes #1 hunter2\n```\n</details><script>\u202e"
	out := r.output(Result{Check: Check{Run: evil, Dir: evil}, Conclusion: Failure, Summary: evil, Excerpt: evil, LogTail: evil}, nil, "")
	for name, s := range map[string]string{"title": out.GetTitle(), "summary": out.GetSummary(), "text": out.GetText()} {
		if strings.Contains(s, "hunter2") || strings.ContainsRune(s, '\u202e') {
			t.Errorf("%s holds what it must not: %q", name, s)
		}
		for line := range strings.Lines(outsideCode(s)) {
			if name != "title" && (strings.Contains(line, "@octocat") || strings.Contains(line, "#1") || strings.Contains(line, "<script")) {
				t.Errorf("%s: alive outside of code: %q", name, line)
			}
		}
	}
}

func TestExternalID(t *testing.T) {
	t.Parallel()
	for _, e := range []ExternalID{{"m-1", "r-1-1", "test", 1}, {"m", "r", "a:b: c", 12}} {
		got, ok := ParseExternalID(e.String())
		if diff := cmp.Diff(e, got); diff != "" || !ok {
			t.Errorf("%q: %v (-want +got)\n%s", e, ok, diff)
		}
	}
	for _, s := range []string{"", "v1:m:r:c", "v2:m:r:c:1", "v1:m:r::1", "v1:m:r:c:01", "v1:m:r:c:-1", "4711"} {
		if e, ok := ParseExternalID(s); ok {
			t.Errorf("%q was read as %+v", s, e)
		}
	}
}

// TestSummaryDoesNotRepeatTheTitle: the page shows the one right below the other. What the title has no room for is in the summary.
func TestSummaryDoesNotRepeatTheTitle(t *testing.T) {
	t.Parallel()
	r := NewReporter(ReporterOptions{})
	out := r.output(Result{Check: Check{Name: "test", Run: "go test"}, Conclusion: Failure, Summary: "2 of 5 failed"}, nil, "")
	if out.GetTitle() != "2 of 5 failed" || strings.Contains(out.GetSummary(), "2 of 5 failed") || !strings.Contains(out.GetSummary(), "`go test`") {
		t.Errorf("title %q, summary %q", out.GetTitle(), out.GetSummary())
	}
	long := strings.Repeat("x", titleMax) + " the end"
	if out := r.output(Result{Conclusion: Failure, Summary: long}, nil, ""); !strings.Contains(out.GetSummary(), "the end") || len(out.GetTitle()) > titleMax {
		t.Errorf("title of %d bytes, summary %q", len(out.GetTitle()), out.GetSummary())
	}
}
