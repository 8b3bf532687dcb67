package mission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
)

// marker hides a key of ours in a comment, so that a comment whose creation was never confirmed is found and not made again.
func marker(key string) string {
	return "<!-- sandpiper:" + strings.ReplaceAll(key, "--", "__") + " -->"
}

// sayOnce comments on an issue unless that was done for the key before.
func (e *Engine) sayOnce(ctx context.Context, gh *github.Client, repo installation.Repo, number int, key, text string) error {
	_, _, err := e.comment(ctx, gh, repo, number, key, text)
	return err
}

// comment finds or makes the comment of a key and returns its id; one that is found says what it said before. The intent is
// recorded before the call, so that only a call whose answer was lost costs a look through the comments.
func (e *Engine) comment(ctx context.Context, gh *github.Client, repo installation.Repo, number int, key, text string) (id int64, found bool, err error) {
	id, done, err := e.Store.Effect(ctx, key)
	if done || err != nil {
		return id, done, err
	}
	_, tried, err := e.Store.Effect(ctx, "intent:"+key)
	if err != nil {
		return 0, false, err
	}
	if tried {
		if id, err = e.findComment(ctx, gh, repo, number, marker(key)); err != nil {
			return 0, false, err
		}
	} else if err := e.Store.AddEffect(ctx, "intent:"+key, 0, e.Now()); err != nil {
		return 0, false, err
	}
	found = id != 0
	if !found {
		body := e.Redact(text) + "\n\n" + marker(key)
		made, _, err := gh.Issues.CreateComment(ctx, repo.Owner, repo.Name, number, &github.IssueComment{Body: &body})
		if err != nil {
			return 0, false, fmt.Errorf("comment on %d: %w", number, err)
		}
		id = made.GetID()
	}
	return id, found, e.Store.AddEffect(context.WithoutCancel(ctx), key, id, e.Now())
}

// findComment looks for a comment of our own with a mark in it; 0 when there is none.
func (e *Engine) findComment(ctx context.Context, gh *github.Client, repo installation.Repo, number int, mark string) (int64, error) {
	options := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		page, response, err := gh.Issues.ListComments(ctx, repo.Owner, repo.Name, number, options)
		if err != nil {
			return 0, fmt.Errorf("comments of %d: %w", number, err)
		}
		for _, c := range page {
			if c.GetUser().GetLogin() == e.Slug+"[bot]" && strings.Contains(c.GetBody(), mark) {
				return c.GetID(), nil
			}
		}
		if response.NextPage == 0 {
			return 0, nil
		}
		options.Page = response.NextPage
	}
}

// editComment changes a comment of ours; one that somebody has deleted is left deleted.
func (e *Engine) editComment(ctx context.Context, gh *github.Client, repo installation.Repo, id int64, key, text string) error {
	body := e.Redact(text) + "\n\n" + marker(key)
	_, response, err := gh.Issues.EditComment(ctx, repo.Owner, repo.Name, id, &github.IssueComment{Body: &body})
	if response != nil && (response.StatusCode == 404 || response.StatusCode == 410) {
		return errCommentGone
	}
	if err != nil {
		return fmt.Errorf("comment %d: %w", id, err)
	}
	return nil
}

var errCommentGone = errors.New("the comment has been deleted")
