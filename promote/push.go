package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// branchMax bounds the search for a free name: more missions on one issue than this are no missions.
const branchMax = 50

// push brings what was staged to a branch of the bot and gives the pull request that stands on it already, if one does.
func (p *publication) push(ctx context.Context, heads map[string]string) (*github.PullRequest, error) {
	if p.req.Previous != nil {
		return p.pushOn(ctx, *p.req.Previous, heads)
	}
	names, err := p.names(ctx, heads)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		at := heads["refs/heads/"+name]
		pull, used, err := p.standing(ctx, name)
		if err != nil {
			return nil, err
		}
		if pull != nil {
			return p.found(ctx, name, at, pull)
		}
		if landed, err := p.landed(ctx, name, at); landed || err != nil { // before the bot was killed
			return nil, err
		}
		// A branch of the API's making that is still at the base is one that the bot was killed at, or another mission's:
		// the lease decides.
		if begun := p.req.API && at == p.req.Staged.Base && at != ""; used || at != "" && !begun {
			continue // another mission's
		}
		err = p.deliver(ctx, name, at)
		if errors.Is(err, git.ErrStale) {
			continue // taken since we looked
		}
		return nil, err
	}
	return nil, fmt.Errorf("%s: %w", BranchName(p.req.Issue, p.req.Title, branchMax), ErrTooMany)
}

// names are the names that the branch may have: one that holds the commit already, then the others in order.
func (p *publication) names(ctx context.Context, heads map[string]string) ([]string, error) {
	var holding, others []string
	for n := 1; n <= branchMax; n++ {
		name := BranchName(p.req.Issue, p.req.Title, n)
		holds, err := p.holds(ctx, heads["refs/heads/"+name])
		if err != nil {
			return nil, err
		}
		if holds {
			holding = append(holding, name)
		} else {
			others = append(others, name)
		}
	}
	return append(holding, others...), nil
}

// holds says whether a commit at GitHub is the one that is offered. One that the API made has an id of GitHub's, and is known
// by its tree and message.
func (p *publication) holds(ctx context.Context, at string) (bool, error) {
	if at == "" || !p.req.API {
		return at != "" && at == p.req.Staged.Commit, nil
	}
	commit, response, err := p.GitHub.Git.GetCommit(ctx, p.req.Owner, p.req.Repo, at)
	if response != nil && response.StatusCode == 404 {
		return false, nil // a branch that went away since
	}
	if err != nil {
		return false, fmt.Errorf("commit %s: %w", at, err)
	}
	said := strings.TrimSpace(commit.GetMessage())
	known := said == strings.TrimSpace(p.message()) || said == strings.TrimSpace(CommitMessage(p.req, p.Redact))
	return known && commit.GetTree().GetSHA() == p.req.Staged.Tree, nil
}

// landed notes that a branch holds what is offered, if it does.
func (p *publication) landed(ctx context.Context, name, at string) (bool, error) {
	holds, err := p.holds(ctx, at)
	if holds {
		p.result.Branch, p.result.Head = name, at
	}
	return holds, err
}

// found takes the mission's own pull request, if it is open and shows this commit. The listing of branches may be from
// before another process pushed the same, so the remote is asked once more.
func (p *publication) found(ctx context.Context, name, at string, pull *github.PullRequest) (*github.PullRequest, error) {
	if pull.GetState() != "open" {
		return nil, &ErrClosed{PR: pull}
	}
	landed, err := p.landed(ctx, name, at)
	if err == nil && !landed {
		if at, err = p.at(ctx, name); err == nil {
			landed, err = p.landed(ctx, name, at)
		}
	}
	if err == nil && !landed {
		err = fmt.Errorf("branch %s with pull request #%d of this mission: %w", name, pull.GetNumber(), ErrBranchMoved)
	}
	return pull, err
}

// pushOn goes on with a branch that an earlier run of the mission pushed, if nobody else has touched it.
func (p *publication) pushOn(ctx context.Context, b Branch, heads map[string]string) (*github.PullRequest, error) {
	pull, _, err := p.standing(ctx, b.Name)
	if err != nil {
		return nil, err
	}
	if pull != nil && pull.GetState() != "open" {
		return nil, &ErrClosed{PR: pull}
	}
	at := heads["refs/heads/"+b.Name]
	if landed, err := p.landed(ctx, b.Name, at); landed || err != nil {
		return pull, err
	}
	if at == b.Head || at == "" {
		err = p.deliver(ctx, b.Name, at)
	} else {
		err = git.ErrStale
	}
	if errors.Is(err, git.ErrStale) {
		return nil, fmt.Errorf("branch %s: %w", b.Name, ErrBranchMoved)
	}
	return pull, err
}

// deliver pushes, or has GitHub make the commit, and asks the remote when the answer does not say what happened: one that
// was lost may have come after the branch was made.
func (p *publication) deliver(ctx context.Context, name, expect string) error {
	head, err := p.req.Staged.Commit, p.Repository.upload(ctx, p.req.Staged.LFS)
	if err != nil { // a pointer must not get there before its object
		return err
	}
	if p.req.API {
		head, err = p.deliverByAPI(ctx, name, expect)
	} else {
		err = p.Repository.Push(ctx, head, name, expect)
	}
	if err == nil {
		p.result.Branch, p.result.Head = name, head
		return nil
	}
	if refused := p.refusal(err); refused != nil {
		return refused
	}
	if at, again := p.at(ctx, name); again == nil {
		if landed, again := p.landed(ctx, name, at); again == nil && landed {
			p.Log.Warn("the commit arrived although the answer did not", "branch", name, "error", err)
			return nil
		}
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
