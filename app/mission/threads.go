package mission

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/say"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/promote"
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

// thread is a conversation on lines, the oldest comment first.
type thread []*github.PullRequestComment

// root is the id that replies go to.
func (t thread) root() int64 { return t[0].GetID() }

func (e *Engine) isOwn(c *github.PullRequestComment) bool {
	return c.GetUser().GetLogin() == e.Slug+"[bot]"
}

// threads lists the conversations of a pull request.
func (e *Engine) threads(ctx context.Context, gh *github.Client, m *store.Mission) (all []thread, err error) {
	at := map[int64]int{}
	options := &github.PullRequestListCommentsOptions{Sort: "created", Direction: "asc", ListOptions: github.ListOptions{PerPage: 100}}
	for count := 0; count < mostComments; {
		page, response, err := gh.PullRequests.ListComments(ctx, m.Owner, m.Name, m.Pull, options)
		if err != nil {
			return nil, fmt.Errorf("review comments of %d: %w", m.Pull, err)
		}
		for _, c := range page {
			count++
			i, known := at[c.GetInReplyTo()]
			if !known {
				i = len(all)
				all = append(all, nil)
				at[c.GetID()] = i
			}
			all[i] = append(all[i], c)
		}
		if response.NextPage == 0 {
			break
		}
		options.Page = response.NextPage
	}
	return all, nil
}

// openThreads are the conversations in which people have the last word.
func (e *Engine) openThreads(ctx context.Context, gh *github.Client, m *store.Mission, people func(context.Context, string, bool) (agent.Person, error)) (open []agent.Thread, err error) {
	all, err := e.threads(ctx, gh, m)
	if err != nil {
		return nil, err
	}
	outsiders, err := e.forOutsiders(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if e.isOwn(t[len(t)-1]) {
			continue
		}
		given := agent.Thread{Path: t[0].GetPath(), Line: t[0].GetLine(), Hunk: t[0].GetDiffHunk()}
		if given.Line == 0 {
			given.Line, given.Outdated = t[0].GetOriginalLine(), t[0].GetOriginalLine() > 0
		}
		for _, c := range t {
			if e.isOwn(c) {
				continue
			}
			author, err := people(ctx, c.GetUser().GetLogin(), c.GetUser().GetType() == "Bot")
			if err != nil {
				return nil, err
			}
			withhold := ""
			if !outsiders && !slices.Contains([]string{"admin", "maintain", "write"}, author.Standing) {
				withhold = "by somebody without write access: the boundary of this run is for the words of people who may write"
			}
			given.Comments = append(given.Comments, agent.Comment{
				Withhold: withhold,
				ID:       c.GetID(), Body: c.GetBody(), Author: author, URL: c.GetHTMLURL(), CreatedAt: c.GetCreatedAt().Time, UpdatedAt: c.GetUpdatedAt().Time,
			})
		}
		open = append(open, given)
	}
	return open, nil
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

// answer replies to each thread that the round was given, once, with what the pushed commit does about it. A thread whose lines it
// changes is resolved, where the required checks passed.
func (e *Engine) answer(ctx context.Context, m *store.Mission, run *store.Run) error {
	if !isFollowUp(m, run) {
		return nil
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	open, err := e.unanswered(ctx, gh, m, run)
	if err != nil {
		return err
	}
	passed, err := passedAll(run)
	if err != nil {
		return err
	}
	says := map[int64]string{}
	var done []int64
	for _, t := range open {
		what, touched, err := e.touches(ctx, m, run, t[0])
		if err != nil {
			return err
		}
		if says[t.root()] = what; touched && passed {
			done = append(done, t.root())
		}
	}
	resolved, err := e.resolve(ctx, m, done)
	if err != nil {
		return err
	}
	for _, t := range open {
		what := says[t.root()]
		if resolved[t.root()] {
			what += " Resolved with that; open it again if it is not what you meant."
		}
		if err := e.replyOnce(ctx, gh, m, t, what); err != nil {
			return err
		}
	}
	return nil
}

// unanswered are the threads that the round was given and has not answered yet.
func (e *Engine) unanswered(ctx context.Context, gh *github.Client, m *store.Mission, run *store.Run) (open []thread, err error) {
	var receipt agent.Receipt
	if err := json.Unmarshal([]byte(run.Receipt), &receipt); err != nil {
		return nil, fmt.Errorf("receipt of %s: %w", run.ID, err)
	}
	given := map[string]bool{}
	for _, item := range receipt.Items {
		if item.Kind == "thread" && item.Withheld == "" {
			given[item.Source] = true
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	all, err := e.threads(ctx, gh, m)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if !given[t[0].GetHTMLURL()] && !given[t[len(t)-1].GetHTMLURL()] {
			continue
		}
		_, answered, err := e.Store.Effect(ctx, replyKey(m, t))
		if err != nil {
			return nil, err
		}
		if !answered {
			open = append(open, t)
		}
	}
	return open, nil
}

// passedAll says whether no required check of a run failed: a thread is not done by a commit that breaks something else.
func passedAll(run *store.Run) (bool, error) {
	results, err := resultsOf(run)
	return err == nil && checks.Passed(listed(results), results), err
}

// resolve marks threads as resolved, as far as the App may: to answer is what has to be done.
func (e *Engine) resolve(ctx context.Context, m *store.Mission, roots []int64) (map[int64]bool, error) {
	if len(roots) == 0 {
		return nil, nil
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Promote)
	if err != nil {
		return nil, err
	}
	resolved, err := promote.ResolveThreads(ctx, gh, m.Owner, m.Name, m.Pull, roots)
	if errors.Is(err, promote.ErrForbidden) {
		e.Log.Warn("review threads stay open", "mission", m.ID, "error", err)
		return resolved, nil
	}
	return resolved, err
}

func replyKey(m *store.Mission, t thread) string { return fmt.Sprintf("thread:%d:%s", t.root(), m.Run) }

// replyOnce answers a thread for the present run.
func (e *Engine) replyOnce(ctx context.Context, gh *github.Client, m *store.Mission, t thread, text string) error {
	key := replyKey(m, t)
	if _, done, err := e.Store.Effect(ctx, key); done || err != nil {
		return err
	}
	id := int64(0)
	for _, c := range t { // an answer of ours whose confirmation was lost
		if e.isOwn(c) && strings.Contains(c.GetBody(), say.Marker(key)) {
			id = c.GetID()
		}
	}
	if id == 0 {
		made, response, err := gh.PullRequests.CreateCommentInReplyTo(ctx, m.Owner, m.Name, m.Pull, e.say.Body(key, text), t.root())
		if response != nil && (response.StatusCode == 404 || response.StatusCode == 422) {
			return nil // the thread is gone, or nobody may write in it any more
		}
		if err != nil {
			return fmt.Errorf("answer to review comment %d: %w", t.root(), err)
		}
		id = made.GetID()
	}
	return e.Store.AddEffect(context.WithoutCancel(ctx), key, id, e.Now())
}

// touches says what the commit of a round does to the lines of a thread, and whether it changes them.
func (e *Engine) touches(ctx context.Context, m *store.Mission, run *store.Run, c *github.PullRequestComment) (string, bool, error) {
	diff, cut, err := e.readDiff(ctx, m, plainDiff(run.Base, m.Head, ":(literal)"+c.GetPath()))
	if err != nil {
		return "", false, fmt.Errorf("diff of %.7s: %w", m.Head, err)
	}
	first, last := c.GetOriginalStartLine(), c.GetOriginalLine()
	if first == 0 {
		first = last
	}
	known := c.GetOriginalCommitID() == run.Base && last > 0 && c.GetSide() != "LEFT"
	commit := fmt.Sprintf("`%.12s`", m.Head)
	switch {
	case len(diff) == 0:
		return commit + " does not change this file. Whether that answers this is for you to say.", false, nil
	case known && hunkTouches(diff, first, last):
		return commit + " changes these lines.", true, nil
	case cut:
		return commit + " changes this file, so much that Sandpiper has not looked at all of it.", false, nil
	case known:
		return commit + " changes this file, but not these lines.", false, nil
	}
	return commit + " changes this file.", false, nil
}

// hunkTouches says whether a diff without context changes a line of the old file between first and last. Lines that were put in
// stand behind the line that their hunk names.
func hunkTouches(diff []byte, first, last int) bool {
	for line := range bytes.Lines(diff) {
		if !bytes.HasPrefix(line, []byte("@@ -")) {
			continue
		}
		var start int
		count := 1
		if n, _ := fmt.Sscanf(string(line), "@@ -%d,%d", &start, &count); n == 0 {
			continue
		}
		if start <= last && start+max(count, 1)-1 >= first {
			return true
		}
	}
	return false
}
