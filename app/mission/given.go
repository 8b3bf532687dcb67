package mission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

// readFollowUp gathers what a round is about. It takes everything that was asked until now: the agent has not begun yet.
func (e *Engine) readFollowUp(ctx context.Context, m *store.Mission) (*agent.FollowUp, error) {
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return nil, err
	}
	if err := e.Store.SettleAsks(ctx, m.ID, m.Attempt); err != nil {
		return nil, err
	}
	f := &agent.FollowUp{Round: m.Attempt, Pull: m.Pull, Head: m.Head}
	people := e.people(gh, repoOf(m))
	asks, previous, err := e.asksOf(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, a := range asks {
		r := agent.Request{Text: a.Instruction, URL: m.PullURL, At: a.At}
		if r.By, err = people(ctx, a.Login, false); err != nil {
			return nil, err
		}
		if a.Review != 0 {
			review, response, err := gh.PullRequests.GetReview(ctx, m.Owner, m.Name, m.Pull, a.Review)
			if err != nil && (response == nil || response.StatusCode != 404) {
				return nil, fmt.Errorf("review %d: %w", a.Review, err)
			}
			r.Text, r.URL = review.GetBody(), review.GetHTMLURL()
		}
		f.Asked = append(f.Asked, r)
	}
	if f.Threads, err = e.openThreads(ctx, gh, m, people); err != nil {
		return nil, err
	}
	if f.Checks, err = e.failedChecks(ctx, m, previous); err == nil && isUpdate(m) {
		f.Sides, err = e.sides(ctx, m)
	}
	return f, err
}

// asksOf gives what the present round was asked, and the run whose result the branch has. What a round was asked that came to
// nothing, since its machine was lost or its agent gave up, is asked still.
func (e *Engine) asksOf(ctx context.Context, m *store.Mission) (asks []store.Ask, previous *store.Run, err error) {
	for at := (store.Mission{ID: m.ID, Attempt: m.Attempt}); at.Attempt > 0; at.Attempt-- {
		if at.Attempt < m.Attempt {
			_, err := e.Store.Promotion(ctx, runID(&at))
			if err == nil {
				previous, err = e.Store.Run(ctx, runID(&at))
				return asks, previous, err
			}
			if !errors.Is(err, store.ErrNone) {
				return nil, nil, err
			}
		}
		round, err := e.Store.Asks(ctx, m.ID, at.Attempt)
		if err != nil {
			return nil, nil, err
		}
		asks = append(round, asks...)
	}
	return asks, nil, nil
}

// forOutsiders says whether the present run may be given what people without write access wrote.
func (e *Engine) forOutsiders(ctx context.Context, m *store.Mission) (bool, error) {
	t, err := e.savedTrust(ctx, m.Run)
	if errors.Is(err, store.ErrNone) {
		return false, nil
	}
	return t.Tier == probe.Outsider, err
}

// failedChecks are the checks that did not pass on the head: our own with their logs, those of others with what they show.
func (e *Engine) failedChecks(ctx context.Context, m *store.Mission, previous *store.Run) (failed []agent.FailedCheck, err error) {
	if previous != nil {
		results, err := resultsOf(previous)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			if r.Conclusion == checks.Failure || r.Conclusion == checks.TimedOut {
				failed = append(failed, agent.FailedCheck{Name: r.Name, Command: r.Run, Summary: r.Summary, Log: r.LogTail})
			}
		}
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Checks)
	if err != nil {
		return nil, err
	}
	list, _, err := gh.Checks.ListCheckRunsForRef(ctx, m.Owner, m.Name, m.Head, &github.ListCheckRunsOptions{Status: github.String("completed"), ListOptions: github.ListOptions{PerPage: 100}})
	if err != nil {
		return nil, fmt.Errorf("check runs of %.7s: %w", m.Head, err)
	}
	outsiders, err := e.forOutsiders(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, r := range list.CheckRuns {
		if r.GetApp().GetID() == e.AppID || r.GetConclusion() != "failure" && r.GetConclusion() != "timed_out" {
			continue
		}
		out := r.GetOutput()
		if !outsiders { // what other Apps print is nobody's with write access
			out = nil
		}
		failed = append(failed, agent.FailedCheck{
			Name: r.GetName(), By: cmp.Or(r.GetApp().GetName(), "another App"), Summary: strings.TrimSpace(out.GetTitle() + "\n" + out.GetSummary()), Log: out.GetText(),
		})
	}
	return failed, nil
}
