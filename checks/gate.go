package checks

import (
	"context"

	"github.com/google/go-github/v60/github"
)

// Gate is a Check Run that waits for people and not for a command: in progress until it is open, and again when it closes.
type Gate struct {
	Open    bool
	Title   string // one line: what it waits for, or what opened it
	Summary string // Markdown of ours
}

// Gate shows where a gate stands on a commit. A run that has succeeded is never taken back, since GitHub shows what a rule
// was met by; a gate that closes again is a new run of the same name, which is the one that counts.
func (r *Reporter) Gate(ctx context.Context, gh *github.Client, t Target, key ExternalID, g Gate) error {
	defer r.enter(t.HeadSHA + key.Check)()
	var runs []*github.CheckRun
	if !t.Fresh {
		all, err := r.list(ctx, gh, t, RunName(key.Check))
		if err != nil {
			return err
		}
		runs = all
	}
	var newest *github.CheckRun
	for _, run := range runs {
		if newest == nil || run.GetID() > newest.GetID() {
			newest = run
		}
	}
	output := &github.CheckRunOutput{Title: github.String(r.o.Redact(g.Title)), Summary: github.String(r.o.Redact(g.Summary))}
	done := newest.GetStatus() == "completed"
	switch {
	case done && g.Open && newest.GetConclusion() == string(Success):
		return nil
	case newest == nil, done:
		options := github.CreateCheckRunOptions{
			Name: RunName(key.Check), HeadSHA: t.HeadSHA, ExternalID: github.String(key.String()), DetailsURL: optional(t.DetailsURL),
			Status: github.String("in_progress"), Output: output,
		}
		if g.Open {
			options.Status, options.Conclusion, options.CompletedAt = github.String("completed"), github.String(string(Success)), timestamp(r.o.Now())
		}
		_, _, err := gh.Checks.CreateCheckRun(ctx, t.Owner, t.Repo, options)
		if err != nil {
			return classify("create check run "+key.String(), err)
		}
		return nil
	case !g.Open && newest.GetOutput().GetTitle() == output.GetTitle() && newest.GetOutput().GetSummary() == output.GetSummary():
		return nil
	}
	change := update{UpdateCheckRunOptions: github.UpdateCheckRunOptions{Name: RunName(key.Check), Output: output}}
	if g.Open {
		change.Status, change.Conclusion, change.CompletedAt = github.String("completed"), github.String(string(Success)), timestamp(r.o.Now())
	}
	_, err := r.patch(ctx, gh, t, newest.GetID(), change)
	return err
}

// EndGate ends what still waits on a commit, with a sentence why. It is cancelled, and not neutral: GitHub takes neutral and skipped for
// a required check's success, and a branch may be put back onto the commit
// (https://docs.github.com/pull-requests/collaborating-with-pull-requests/collaborating-on-repositories-with-code-quality-features/about-status-checks).
func (r *Reporter) EndGate(ctx context.Context, gh *github.Client, t Target, check, why string) error {
	defer r.enter(t.HeadSHA + check)()
	runs, err := r.list(ctx, gh, t, RunName(check))
	if err != nil {
		return err
	}
	for _, run := range runs {
		if _, ours := ParseExternalID(run.GetExternalID()); !ours || run.GetStatus() == "completed" {
			continue
		}
		_, err := r.patch(ctx, gh, t, run.GetID(), update{UpdateCheckRunOptions: github.UpdateCheckRunOptions{
			Name: RunName(check), Status: github.String("completed"), Conclusion: github.String(string(Cancelled)), CompletedAt: timestamp(r.o.Now()),
			Output: &github.CheckRunOutput{Title: github.String(r.o.Redact(why)), Summary: github.String(r.o.Redact(why) + ".")},
		}})
		if err != nil {
			return err
		}
	}
	return nil
}
