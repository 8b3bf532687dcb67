// Package say posts the bot's comments, each once.
//
// A comment has a key of ours, recorded before the call and hidden in its text, so that one whose creation was never confirmed is found
// and not made again. What is posted is redacted and has the length that GitHub takes. The package must not know what a comment is
// about, and does not quote: whoever puts words of others into a text has quoted them (sandbox/quote).
package say

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// Effects remembers what was done at GitHub, by keys of ours.
type Effects interface {
	Effect(ctx context.Context, key string) (id int64, done bool, err error)
	// AddEffect may be called again for a key: the first call counts.
	AddEffect(ctx context.Context, key string, id int64, now time.Time) error
	// EffectsSince counts the keys that begin so.
	EffectsSince(ctx context.Context, begin string, since time.Time) (n int, err error)
}

// Poster posts comments as one account.
type Poster struct {
	Effects Effects
	Login   string // of the account
	Redact  func(string) string
	Now     func() time.Time
}

// ErrGone says that a person has deleted the comment, and does not want to see it.
var ErrGone = errors.New("the comment has been deleted")

// Marker hides a key of ours in a comment, so that a comment whose creation was never confirmed is found and not made again.
func Marker(key string) string {
	return "<!-- sandpiper:" + strings.ReplaceAll(key, "--", "__") + " -->"
}

// bodyMost is how many characters GitHub takes in a comment; bytes are never fewer.
const bodyMost = 65536

// Body is a text as it is posted under a key. What is too long is cut, which it says.
func (p *Poster) Body(key, text string) string {
	end := "\n\n" + Marker(key)
	return quote.Cut(p.Redact(text), bodyMost-len(end), "\n\n… cut: GitHub takes no more in a comment.") + end
}

// Once comments on an issue unless that was done for the key before.
func (p *Poster) Once(ctx context.Context, gh *github.Client, repo installation.Repo, number int, key, text string) error {
	_, _, err := p.Comment(ctx, gh, repo, number, key, text)
	return err
}

// Comment finds or makes the comment of a key and returns its id; one that is found says what it said before. The intent is
// recorded before the call, so that only a call whose answer was lost costs a look through the comments.
func (p *Poster) Comment(ctx context.Context, gh *github.Client, repo installation.Repo, number int, key, text string) (id int64, found bool, err error) {
	id, done, err := p.Effects.Effect(ctx, key)
	if done || err != nil {
		return id, done, err
	}
	_, tried, err := p.Effects.Effect(ctx, "intent:"+key)
	if err != nil {
		return 0, false, err
	}
	if tried {
		if id, err = p.find(ctx, gh, repo, number, Marker(key)); err != nil {
			return 0, false, err
		}
	} else if err := p.Effects.AddEffect(ctx, "intent:"+key, 0, p.Now()); err != nil {
		return 0, false, err
	}
	found = id != 0
	if !found {
		body := p.Body(key, text)
		made, _, err := gh.Issues.CreateComment(ctx, repo.Owner, repo.Name, number, &github.IssueComment{Body: &body})
		if err != nil {
			return 0, false, fmt.Errorf("comment on %d: %w", number, err)
		}
		id = made.GetID()
	}
	return id, found, p.Effects.AddEffect(context.WithoutCancel(ctx), key, id, p.Now())
}

// find looks for a comment of our own with a mark in it; 0 when there is none.
func (p *Poster) find(ctx context.Context, gh *github.Client, repo installation.Repo, number int, mark string) (int64, error) {
	options := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		page, response, err := gh.Issues.ListComments(ctx, repo.Owner, repo.Name, number, options)
		if err != nil {
			return 0, fmt.Errorf("comments of %d: %w", number, err)
		}
		for _, c := range page {
			if c.GetUser().GetLogin() == p.Login && strings.Contains(c.GetBody(), mark) {
				return c.GetID(), nil
			}
		}
		if response.NextPage == 0 {
			return 0, nil
		}
		options.Page = response.NextPage
	}
}

// Edit changes a comment of ours; one that somebody has deleted is left deleted.
func (p *Poster) Edit(ctx context.Context, gh *github.Client, repo installation.Repo, id int64, key, text string) error {
	body := p.Body(key, text)
	_, response, err := gh.Issues.EditComment(ctx, repo.Owner, repo.Name, id, &github.IssueComment{Body: &body})
	if response != nil && (response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("comment %d: %w", id, err)
	}
	return nil
}
