package checks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

const (
	batch       = 50     // annotations in one request; GitHub refuses more, some of its stand-ins drop them silently
	titleMax    = 255    // bytes of a title
	textMax     = 65_535 // bytes of a summary and of a text
	completions = 3      // tries at posting annotations before the conclusion goes out without them
)

// Complete writes the end of a check: annotations in batches, the conclusion with the last one, so that a run which is
// cut off in between is found open and goes on with the annotations that are not there yet. It does not stop when ctx is
// cancelled, because a check that is never completed blocks a pull request for ever; it has a deadline of its own.
// Annotations that GitHub does not take are said to be missing, and do not keep the conclusion from being written.
func (r *Reporter) Complete(ctx context.Context, gh *github.Client, t Target, key ExternalID, res Result) (*github.CheckRun, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Deadline)
	defer cancel()
	defer r.enter(t.HeadSHA + key.String())()
	runs, err := r.find(ctx, gh, t, key)
	if err != nil {
		return nil, err
	}
	return r.completeRuns(ctx, gh, t, key, runs, res)
}

// Final is how one check ended.
type Final struct {
	Key    ExternalID
	Result Result
}

// CompleteAll is Complete for several checks of one commit. What is there is listed once for all of them, and what is not is
// created as it ended, so that N checks that nobody showed before cost N+1 calls, or N on a fresh commit. It goes on after an
// error and returns all.
func (r *Reporter) CompleteAll(ctx context.Context, gh *github.Client, t Target, all []Final) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Deadline)
	defer cancel()
	var listed []*github.CheckRun
	if !t.Fresh {
		all, err := r.list(ctx, gh, t, "")
		if err != nil {
			return err
		}
		listed = all
	}
	var errs []error
	for _, f := range all {
		leave := r.enter(t.HeadSHA + f.Key.String())
		_, err := r.completeRuns(ctx, gh, t, f.Key, of(listed, f.Key), f.Result)
		leave()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// completeRuns concludes the runs of a key, or makes one that is concluded.
func (r *Reporter) completeRuns(ctx context.Context, gh *github.Client, t Target, key ExternalID, runs []*github.CheckRun, res Result) (*github.CheckRun, error) {
	res = r.fit(res)
	if len(runs) == 0 && len(res.Annotations) <= batch {
		u := r.final(t, key, res, res.Annotations, "")
		run, _, err := gh.Checks.CreateCheckRun(ctx, t.Owner, t.Repo, github.CreateCheckRunOptions{
			Name: u.Name, HeadSHA: t.HeadSHA, ExternalID: github.String(key.String()), DetailsURL: u.DetailsURL, Status: u.Status,
			Conclusion: u.Conclusion, StartedAt: u.StartedAt, CompletedAt: u.CompletedAt, Output: u.Output,
			Actions: u.Actions,
		})
		if err == nil {
			return run, nil
		}
		if !transient(err) && !rejected(err) {
			return nil, classify("create check run "+key.String(), err)
		}
		// It may be there all the same, or its annotations were not liked: the long way sees.
	}
	if len(runs) == 0 {
		var err error
		if runs, err = r.make(ctx, gh, t, key, "in_progress", res.Started); err != nil {
			return nil, err
		}
	}
	var first *github.CheckRun
	for _, run := range runs { // all of them: a twin left open would block too
		done, err := r.complete(ctx, gh, t, key, run, res)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = done
		}
	}
	return first, nil
}

func (r *Reporter) complete(ctx context.Context, gh *github.Client, t Target, key ExternalID, run *github.CheckRun, res Result) (*github.CheckRun, error) {
	// What was observed is not taken back by somebody who no longer waits for it.
	if run.GetStatus() == "completed" && (res.Conclusion == Cancelled || run.GetConclusion() == string(res.Conclusion)) {
		return run, nil
	}
	var failed error
	for try := range completions {
		var done *github.CheckRun
		if done, failed = r.annotateAndConclude(ctx, gh, t, key, run, res); failed == nil {
			return done, nil
		}
		if !transient(failed) {
			break
		}
		r.o.Log.Warn("check run not completed", "check_run", run.GetID(), "try", try+1, "error", failed)
		if err := r.o.Wait(ctx, time.Second<<try); err != nil {
			break
		}
	}
	if !transient(failed) && !rejected(failed) || len(res.Annotations) == 0 {
		return nil, failed
	}
	note := fmt.Sprintf("GitHub did not take all of the %d annotations: %s", len(res.Annotations), quote.Text(quote.Cut(failed.Error(), 300, "…")))
	return r.patch(ctx, gh, t, run.GetID(), r.final(t, key, res, nil, note))
}

// annotateAndConclude posts what is not there yet. What is there is read anew each time: a batch whose answer was lost may
// have arrived.
func (r *Reporter) annotateAndConclude(ctx context.Context, gh *github.Client, t Target, key ExternalID, run *github.CheckRun, res Result) (*github.CheckRun, error) {
	left, err := r.missing(ctx, gh, t, run.GetID(), res.Annotations)
	if err != nil {
		return nil, err
	}
	for len(left) > batch {
		u := update{UpdateCheckRunOptions: github.UpdateCheckRunOptions{
			Name: RunName(key.Check), Status: github.String("in_progress"), Output: r.output(res, left[:batch], ""),
		}, StartedAt: timestamp(res.Started)}
		if _, err := r.patch(ctx, gh, t, run.GetID(), u); err != nil {
			return nil, err
		}
		left = left[batch:]
	}
	return r.patch(ctx, gh, t, run.GetID(), r.final(t, key, res, left, ""))
}

// missing is what of want the run does not have.
func (r *Reporter) missing(ctx context.Context, gh *github.Client, t Target, id int64, want []*github.CheckRunAnnotation) ([]*github.CheckRunAnnotation, error) {
	if len(want) == 0 {
		return nil, nil
	}
	there := map[string]int{}
	for o := (&github.ListOptions{PerPage: 100}); ; {
		page, resp, err := gh.Checks.ListCheckRunAnnotations(ctx, t.Owner, t.Repo, id, o)
		if err != nil {
			return nil, classify(fmt.Sprintf("list annotations of check run %d", id), err)
		}
		for _, a := range page {
			there[identity(a)]++
		}
		if resp.NextPage == 0 {
			break
		}
		o.Page = resp.NextPage
	}
	var left []*github.CheckRunAnnotation
	for _, a := range want {
		if k := identity(a); there[k] > 0 {
			there[k]--
			continue
		}
		left = append(left, a)
	}
	return left, nil
}

// fit makes annotations ones that GitHub takes, since it refuses all of a batch for one: bounded texts in UTF-8, lines from 1 on that end
// where they begin or later, columns within one line only.
func (r *Reporter) fit(res Result) Result {
	if more := len(res.Annotations) - annotationMax; more > 0 {
		res.Annotations, res.Omitted = res.Annotations[:annotationMax], res.Omitted+more
		res.Near = min(res.Near, annotationMax)
	}
	list := make([]*github.CheckRunAnnotation, len(res.Annotations))
	for i, a := range res.Annotations {
		b := *a
		start := max(a.GetStartLine(), 1)
		end := max(a.GetEndLine(), start)
		path := strings.ToValidUTF8(a.GetPath(), "\ufffd")
		message := orElse(quote.Cut(quote.Clean(r.o.Redact(a.GetMessage())), messageMax, " …"), "(no words)")
		b.Path, b.StartLine, b.EndLine, b.Message = &path, &start, &end, &message
		if start != end || a.GetStartColumn() < 1 || a.GetEndColumn() < a.GetStartColumn() {
			b.StartColumn, b.EndColumn = nil, nil
		}
		if title := quote.Cut(quote.Line(r.o.Redact(a.GetTitle())), titleMax, "…"); title != "" {
			b.Title = &title
		}
		list[i] = &b
	}
	res.Annotations = list
	return res
}

func identity(a *github.CheckRunAnnotation) string {
	return fmt.Sprintf("%s\x00%d\x00%d\x00%s\x00%s", a.GetPath(), a.GetStartLine(), a.GetStartColumn(), a.GetTitle(), strings.TrimSpace(a.GetMessage()))
}

func (r *Reporter) final(t Target, key ExternalID, res Result, last []*github.CheckRunAnnotation, note string) update {
	ended := res.Completed
	if ended.IsZero() {
		ended = r.o.Now()
	}
	return update{UpdateCheckRunOptions: github.UpdateCheckRunOptions{
		Name: RunName(key.Check), DetailsURL: optional(t.DetailsURL), Status: github.String("completed"),
		Conclusion: github.String(string(res.Conclusion)), CompletedAt: timestamp(ended), Output: r.output(res, last, note),
		Actions: buttons(res),
	}, StartedAt: timestamp(res.Started)}
}

// output is what a person reads on the Check Run's page. Only the summary and the text are Markdown.
func (r *Reporter) output(res Result, annotations []*github.CheckRunAnnotation, note string) *github.CheckRunOutput {
	title := r.o.Redact(quote.Line(res.Summary))
	if title == "" {
		title = string(res.Conclusion)
	}
	out := &github.CheckRunOutput{
		Title:   github.String(quote.Cut(title, titleMax, "…")),
		Summary: github.String(quote.Cut(r.o.Redact(r.summary(res, note)), textMax, "\n\n_truncated_")),
	}
	if res.LogTail != "" {
		log := r.o.Redact(res.LogTail)
		cut := quote.Cut(log, logMax, "\n… truncated: more than can be shown here")
		words := "The whole log"
		if len(cut) < len(log) || strings.HasPrefix(log, cutLog) || res.Exit.Truncated {
			words = "Parts of the log"
		}
		text := words + ":\n\n" + quote.Fence(cut)
		out.Text = &text
	}
	out.Annotations = annotations
	return out
}
