package mission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// What is asked for on a person's own pull request is never pushed to their branch. It is done on a branch of the bot's, from the head of
// theirs, and offered as a pull request onto it: they merge it, or do not.

const notFromFork = "This pull request comes from a fork, and a pull request onto a branch there is not Sandpiper's to open; it never pushes to a branch of " +
	"somebody else. Push the branch to this repository, or say `/sandpiper run` on an issue to have the work done on the default branch."

// stack begins a mission on top of a person's pull request. The caller has seen that the person may write.
func (e *Engine) stack(ctx context.Context, gh *github.Client, t trigger) (string, error) {
	pr, _, err := gh.PullRequests.Get(ctx, t.repo.Owner, t.repo.Name, t.issue.Number)
	if err != nil {
		return "", fmt.Errorf("pull request %d: %w", t.issue.Number, err)
	}
	switch {
	case pr.GetState() != "open":
		return "This pull request is closed. Open it again first.", nil
	case pr.GetHead().GetRepo().GetID() != t.repo.ID:
		return notFromFork, nil
	}
	t.onto = pr.GetHead().GetRef()
	said, err := e.begin(ctx, gh, t)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(said, "mission ") {
		return "A mission is at work on this pull request already. `/sandpiper status` says where it is.", nil
	}
	return "Sandpiper never pushes to a branch of somebody else. It works on a branch of its own, on top of this one, and its result will be a pull request onto `" +
		strings.ReplaceAll(t.onto, "`", "") + "`.", nil
}

// ontoOf is the branch of a person's pull request that a mission works on top of; "" for most missions.
func ontoOf(m *store.Mission) string {
	var t task
	if json.Unmarshal([]byte(m.Task), &t) != nil {
		return ""
	}
	return t.Onto
}

// pinOnto pins the head of the branch that the mission works on top of. The policy has been read from the default branch by then: that
// of a pull request's own branch counts for nothing.
func (e *Engine) pinOnto(ctx context.Context, m *store.Mission) error {
	branch := ontoOf(m)
	if branch == "" {
		return nil
	}
	ref := "refs/heads/" + branch
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
