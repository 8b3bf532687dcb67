package promote

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// branchMax bounds the search for a free name: more missions on one issue than this are no missions.
const branchMax = 50

// push brings the commit to a branch of the bot and gives the pull request that stands on it already, if one does.
func (p *publication) push(ctx context.Context, commit string, heads map[string]string) (*github.PullRequest, error) {
	if p.req.Previous != nil {
		return p.pushOn(ctx, commit, *p.req.Previous, heads)
	}
	for _, name := range p.names(commit, heads) {
		at := heads["refs/heads/"+name]
		pull, used, err := p.standing(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case pull != nil:
			return p.found(ctx, commit, name, at, pull)
		case at == commit: // pushed before the bot was killed
			p.result.Branch = name
			return nil, nil
		case at != "" || used:
			continue // another mission's
		}
		err = p.pushTo(ctx, commit, name, "")
		if errors.Is(err, git.ErrStale) {
			continue // taken since we looked
		}
		return nil, err
	}
	return nil, fmt.Errorf("%s: %w", BranchName(p.req.Issue, p.req.Title, branchMax), ErrTooMany)
}

// names are the names that the branch may have: one that holds the commit already, then the others in order.
func (p *publication) names(commit string, heads map[string]string) []string {
	var holding, others []string
	for n := 1; n <= branchMax; n++ {
		name := BranchName(p.req.Issue, p.req.Title, n)
		if heads["refs/heads/"+name] == commit {
			holding = append(holding, name)
		} else {
			others = append(others, name)
		}
	}
	return append(holding, others...)
}

// found takes the mission's own pull request, if it is open and shows this commit. The listing of branches may be from
// before another process pushed the same, so the remote is asked once more.
func (p *publication) found(ctx context.Context, commit, name, at string, pull *github.PullRequest) (*github.PullRequest, error) {
	if pull.GetState() != "open" {
		return nil, &ErrClosed{PR: pull}
	}
	if at != commit {
		var err error
		if at, err = p.at(ctx, name); err != nil {
			return nil, err
		}
	}
	if at != commit {
		return nil, fmt.Errorf("branch %s with pull request #%d of this mission: %w", name, pull.GetNumber(), ErrBranchMoved)
	}
	p.result.Branch = name
	return pull, nil
}

// pushOn goes on with a branch that an earlier run of the mission pushed, if nobody else has touched it.
func (p *publication) pushOn(ctx context.Context, commit string, b Branch, heads map[string]string) (*github.PullRequest, error) {
	pull, _, err := p.standing(ctx, b.Name)
	if err != nil {
		return nil, err
	}
	if pull != nil && pull.GetState() != "open" {
		return nil, &ErrClosed{PR: pull}
	}
	switch at := heads["refs/heads/"+b.Name]; at {
	case commit:
		p.result.Branch = b.Name
		return pull, nil
	case b.Head, "":
		err = p.pushTo(ctx, commit, b.Name, at)
	default:
		err = git.ErrStale
	}
	if errors.Is(err, git.ErrStale) {
		return nil, fmt.Errorf("branch %s: %w", b.Name, ErrBranchMoved)
	}
	return pull, err
}

// pushTo pushes, and asks the remote when the answer does not say what happened: one that was lost may have come after the
// branch was made.
func (p *publication) pushTo(ctx context.Context, commit, name, expect string) error {
	err := p.Repository.Push(ctx, commit, name, expect)
	if err == nil {
		p.result.Branch = name
		return nil
	}
	if refused := p.refusal(err); refused != nil {
		return refused
	}
	if at, again := p.at(ctx, name); again == nil && at == commit {
		p.Log.Warn("the push arrived although its answer did not", "branch", name, "error", err)
		p.result.Branch = name
		return nil
	}
	return fmt.Errorf("push %s: %w", name, err)
}

// at is the commit that a branch is at now; empty: there is no such branch.
func (p *publication) at(ctx context.Context, branch string) (string, error) {
	ref := "refs/heads/" + branch
	heads, err := p.Repository.LsRemote(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("look at branch %s: %w", branch, err)
	}
	return heads[ref], nil
}
