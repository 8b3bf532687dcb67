package mission

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// What is asked for on a person's own pull request is never pushed to their branch. It is done on a branch of the bot's, from the head of
// theirs, and offered as a pull request onto it: they merge it, or do not. Onto a branch of a fork there is no such pull request for an App
// to open, so there the result is suggested, in a review.

// stack begins a mission on top of a person's pull request. The caller has seen that the person may write.
func (e *Engine) stack(ctx context.Context, gh *github.Client, t trigger) (string, error) {
	pr, _, err := gh.PullRequests.Get(ctx, t.repo.Owner, t.repo.Name, t.issue.Number)
	if err != nil {
		return "", fmt.Errorf("pull request %d: %w", t.issue.Number, err)
	}
	if pr.GetState() != "open" {
		return "This pull request is closed. Open it again first.", nil
	}
	told := "Sandpiper never pushes to a branch of somebody else. It works on top of this one, and its result will be "
	if t.fork = pr.GetHead().GetRepo().GetID() != t.repo.ID; t.fork {
		told += "a review with suggestions: this pull request comes from a fork."
	} else {
		t.onto = pr.GetHead().GetRef()
		told += "a pull request onto `" + strings.ReplaceAll(t.onto, "`", "") + "`."
	}
	if m, err := e.open(ctx, t.repo.ID, t.issue.Number, store.KindIssue); err != nil || m != nil && m.TriggerKey == t.key {
		return told, err // this delivery, handled before a crash
	}
	said, err := e.begin(ctx, gh, t)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(said, "mission ") {
		return "A mission is at work on this pull request already. `/sandpiper status` says where it is.", nil
	}
	return told, nil
}

// isFork says whether a mission's result is suggested on a pull request from a fork.
func isFork(m *store.Mission) bool { return taskOf(m).Fork }

// onPull says whether a mission works on top of a person's pull request, which m.Number is then.
func onPull(m *store.Mission) bool { t := taskOf(m); return t.Fork || t.Onto != "" }

// pinOnto pins the head that the mission works on top of. The policy has been read from the default branch by then: that of a pull
// request's own branch counts for nothing. GitHub keeps refs/pull/N/head in the base repository, whatever becomes of a fork.
func (e *Engine) pinOnto(ctx context.Context, m *store.Mission) error {
	t := taskOf(m)
	if !onPull(m) {
		return nil
	}
	branch, ref := t.Onto, "refs/heads/"+t.Onto
	if t.Fork {
		branch, ref = fmt.Sprintf("pull/%d", m.Number), fmt.Sprintf("refs/pull/%d/head", m.Number)
	}
	refs, err := e.Git.LsRemote(ctx, e.remote(m, installation.Read), ref)
	if err != nil {
		return fmt.Errorf("branch %s: %w", branch, err)
	}
	if refs[ref] == "" {
		return outcome.End(outcome.BlockedByRule, nil, "the branch %q of the pull request is gone", branch)
	}
	m.BaseBranch, m.Base = branch, refs[ref]
	return nil
}
