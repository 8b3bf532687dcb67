package promote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v60/github"
)

// standing looks for pull requests whose head is a branch of ours: this mission's own, in whatever state, and whether the
// name was ever used for one.
func (p *publication) standing(ctx context.Context, branch string) (own *github.PullRequest, used bool, err error) {
	all, err := p.pulls(ctx, branch)
	if err != nil {
		return nil, false, err
	}
	for _, pull := range all {
		if m, ok := ParseMarker(pull.GetBody()); ok && m.Mission == p.req.Mission {
			if own == nil || own.GetState() != "open" {
				own = pull
			}
		}
	}
	return own, len(all) > 0, nil
}

// pulls are all pull requests from a branch of this repository. GitHub ignores a head filter that it does not understand
// and lists everything, so the answer is filtered once more.
func (p *publication) pulls(ctx context.Context, branch string) ([]*github.PullRequest, error) {
	o := &github.PullRequestListOptions{State: "all", Head: p.req.Owner + ":" + branch, ListOptions: github.ListOptions{PerPage: 100}}
	var all []*github.PullRequest
	for {
		page, resp, err := p.GitHub.PullRequests.List(ctx, p.req.Owner, p.req.Repo, o)
		if err != nil {
			return nil, fmt.Errorf("list pull requests of %s: %w", branch, err)
		}
		for _, pull := range page {
			head := pull.GetHead()
			if head.GetRef() == branch && (head.Repo == nil || strings.EqualFold(head.GetRepo().GetFullName(), p.req.Owner+"/"+p.req.Repo)) {
				all = append(all, pull)
			}
		}
		if resp.NextPage == 0 {
			return all, nil
		}
		o.Page = resp.NextPage
	}
}

// offer opens the pull request, or takes the one that is there.
func (p *publication) offer(ctx context.Context, pull *github.PullRequest) error {
	if pull != nil {
		return p.adopt(ctx, pull)
	}
	// Whoever pushed has just looked through the pull requests of the branch; one that was opened since makes this fail.
	_, draft := p.req.draft()
	pull, err := p.create(ctx, draft)
	if draft && says(err, "draft pull request") { // not in private repositories of the free plan
		p.note("This repository does not allow draft pull requests, so this one is not a draft although it should be.")
		pull, err = p.create(ctx, false)
	}
	if err == nil {
		p.result.PR = pull
		return nil
	}
	// "A pull request already exists", or an answer that was lost after the effect: look again.
	if open, again := p.open(ctx); again == nil && open != nil {
		return p.adopt(ctx, open)
	}
	return p.classify(err)
}

// open is the open pull request from our branch, whosever it is.
func (p *publication) open(ctx context.Context) (*github.PullRequest, error) {
	all, err := p.pulls(ctx, p.result.Branch)
	if err != nil {
		return nil, err
	}
	for _, pull := range all {
		if pull.GetState() == "open" {
			return pull, nil
		}
	}
	return nil, nil
}

func (p *publication) create(ctx context.Context, draft bool) (*github.PullRequest, error) {
	pull, _, err := p.GitHub.PullRequests.Create(ctx, p.req.Owner, p.req.Repo, &github.NewPullRequest{
		Title: github.String(p.title()), Head: &p.result.Branch, Base: &p.req.Base, Body: github.String(p.body()), Draft: &draft,
		// true would be refused where we cannot write to the head's repository (sigmavirus24/github3.py#1031)
		MaintainerCanModify: github.Bool(false),
	})
	return pull, err
}

// adopt takes a pull request that is there. Its text is written anew only when it is ours and tells of another manifest:
// people may have edited it since. The title stays: it was the bot's once, and whoever worded it better since is right. So does a
// draft that the bot did not make one.
func (p *publication) adopt(ctx context.Context, pull *github.PullRequest) error {
	p.result.PR, p.result.Adopted = pull, true
	m, ours := ParseMarker(pull.GetBody())
	if !ours || m.Mission != p.req.Mission || m == p.marker() {
		return nil
	}
	p.filled = keepTicks(p.filled, pull.GetBody())
	edited, _, err := p.GitHub.PullRequests.Edit(ctx, p.req.Owner, p.req.Repo, pull.GetNumber(), &github.PullRequest{
		Body: github.String(p.body()),
	})
	if err != nil {
		return fmt.Errorf("update pull request #%d: %w", pull.GetNumber(), err)
	}
	p.result.PR = edited
	_, draft := p.req.draft()
	if !draft && !strings.Contains(pull.GetBody(), draftMark) {
		return nil
	}
	return p.setDraft(ctx, edited, draft)
}

func (p *publication) title() string { return title(p.req, titleMax, p.Redact) }

func (p *publication) note(s string) { p.result.Notes = append(p.result.Notes, s) }

// classify turns a refusal of POST /pulls into what the caller can do about it.
func (p *publication) classify(err error) error {
	var answer *github.ErrorResponse
	if !errors.As(err, &answer) || answer.Response == nil {
		return fmt.Errorf("open pull request: %w", err)
	}
	switch answer.Response.StatusCode {
	case http.StatusForbidden:
		missing := ""
		if says(err, "not accessible by integration") {
			missing = "pull_requests: write"
		}
		return &ErrRefused{Reason: "GitHub does not let the App open a pull request: " + oneLine(answer.Message, p.Redact), Missing: missing, Err: err}
	case http.StatusUnprocessableEntity:
		switch {
		case says(err, "no commits between"):
			return fmt.Errorf("open pull request: %w: %w", ErrNothing, err)
		case names(answer, "base"):
			return fmt.Errorf("open pull request into %s: %w: %w", p.req.Base, ErrBaseGone, err)
		case names(answer, "head"): // the API may not know the branch yet, a moment after the push
			return fmt.Errorf("open pull request: %w", err)
		}
		return &ErrRefused{Reason: "GitHub does not take the pull request: " + oneLine(reasons(answer), p.Redact), Err: err}
	}
	return fmt.Errorf("open pull request: %w", err)
}

func says(err error, words string) bool {
	var answer *github.ErrorResponse
	return errors.As(err, &answer) && strings.Contains(strings.ToLower(reasons(answer)), words)
}

func names(answer *github.ErrorResponse, field string) bool {
	for _, e := range answer.Errors {
		if e.Field == field {
			return true
		}
	}
	return false
}

func reasons(answer *github.ErrorResponse) string {
	all := []string{answer.Message}
	for _, e := range answer.Errors {
		if e.Message != "" {
			all = append(all, e.Message)
		} else if e.Field != "" {
			all = append(all, e.Field+" "+e.Code)
		}
	}
	return strings.Join(all, "; ")
}
