package mission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/say"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/promote"
)

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
	receipt, err := receiptOf(run)
	if err != nil {
		return nil, err
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
