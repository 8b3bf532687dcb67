package mission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// Labelled starts what the label of the settings in one repository asks for and no delivery has told: the hook was set up
// wrongly, or the bot was away for longer than GitHub keeps its log. gh reads the repository's issues. It may be called at
// any time and again: a label that was acted on is found to be.
func (e *Engine) Labelled(ctx context.Context, gh *github.Client, repo installation.Repo) (started int, err error) {
	var errs []error
	options := &github.IssueListByRepoOptions{State: "open", Labels: []string{e.Label}, ListOptions: github.ListOptions{PerPage: 100}}
	for {
		page, response, err := gh.Issues.ListByRepo(ctx, repo.Owner, repo.Name, options)
		if gone := (*github.ErrorResponse)(nil); errors.As(err, &gone) && gone.Response.StatusCode == 410 {
			return started, nil // the repository has no issues
		}
		if err != nil {
			return started, errors.Join(append(errs, fmt.Errorf("labelled issues of %s/%s: %w", repo.Owner, repo.Name, err))...)
		}
		for _, issue := range page {
			key := fmt.Sprintf("%d#%d", repo.ID, issue.GetNumber())
			err := e.inLane(key, func() error {
				begun, err := e.missed(ctx, gh, repo, issue)
				if begun {
					started++
				}
				return err
			})
			if err != nil {
				errs = append(errs, err)
			}
		}
		if response.NextPage == 0 {
			return started, errors.Join(errs...)
		}
		options.Page = response.NextPage
	}
}

// missed acts on one issue that carries the label, as the delivery would have done.
func (e *Engine) missed(ctx context.Context, gh *github.Client, repo installation.Repo, found *github.Issue) (begun bool, err error) {
	issue := webhooks.Issue{
		Number: found.GetNumber(), IsPR: found.IsPullRequest(), Title: found.GetTitle(), Body: found.GetBody(), State: found.GetState(),
		Author: userOf(found.GetUser()), UpdatedAt: found.GetUpdatedAt().Time,
	}
	last, err := e.Store.LastMission(ctx, repo.ID, issue.Number, kindOf(issue))
	if err != nil && !errors.Is(err, store.ErrNone) {
		return false, err
	}
	if last != nil && !last.Ended() && last.Step != stepWaiting {
		return false, nil // it is at it, and takes the label off itself
	}
	event, err := e.labelling(ctx, gh, repo, issue.Number)
	if event == nil || err != nil {
		return false, err
	}
	at := event.GetCreatedAt().Time
	if last != nil && !at.After(last.TriggeredAt) {
		return false, nil // that mission was what the label asked for, and could not take it off
	}
	t := trigger{
		repo: repo, issue: issue, by: userOf(event.GetActor()), label: event.GetLabel().GetName(), at: at,
		key: fmt.Sprintf("label:%d:%d:%d", repo.ID, issue.Number, event.GetID()),
	}
	t.meta = webhooks.Meta{
		Event: "issues", Action: "labeled", InstallationID: repo.InstallationID, Sender: t.by,
		Repo: webhooks.Repo{ID: repo.ID, Owner: repo.Owner, Name: repo.Name, FullName: repo.Owner + "/" + repo.Name},
	}
	if t.by.Login == e.login() {
		return false, nil
	}
	said, err := e.startMissed(ctx, t)
	if err != nil {
		return false, fmt.Errorf("label on %s/%s#%d: %w", repo.Owner, repo.Name, issue.Number, err)
	}
	e.Log.Info("label without a mission found", "issue", fmt.Sprintf("%s/%s#%d", repo.Owner, repo.Name, issue.Number), "by", t.by.Login, "at", at, "outcome", said)
	return strings.HasPrefix(said, "mission "), nil
}

// startMissed starts, unless the text may be younger than the label: whoever put it on has not seen that text then, and
// GitHub does not tell what the text was. People with write access may change what they like; they could label it as well.
func (e *Engine) startMissed(ctx context.Context, t trigger) (string, error) {
	if t.issue.IsPR || !t.issue.UpdatedAt.After(t.at.Add(time.Second)) || t.issue.Author == t.by {
		return e.start(ctx, t)
	}
	gh, err := e.GitHub.Client(ctx, t.repo, installation.Issues)
	if err != nil {
		return "", err
	}
	author, err := standing.Of(ctx, gh, t.repo, t.issue.Author.Login)
	if err != nil {
		return "", err
	}
	if author.MayWrite() {
		return e.start(ctx, t)
	}
	return e.refuse(ctx, gh, t, "younger", "The bot did not hear of the label when @"+t.by.Login+" put it on, and this has been changed since. Read it again, and put the label on again if it still stands.")
}

// labelling finds when the trigger label was last put on, and by whom; nil when it was not, or is off again.
func (e *Engine) labelling(ctx context.Context, gh *github.Client, repo installation.Repo, number int) (last *github.IssueEvent, err error) {
	page := &github.ListOptions{PerPage: 100}
	for {
		events, response, err := gh.Issues.ListIssueEvents(ctx, repo.Owner, repo.Name, number, page)
		if err != nil {
			return nil, fmt.Errorf("history of %s/%s#%d: %w", repo.Owner, repo.Name, number, err)
		}
		for _, event := range events {
			if !strings.EqualFold(event.GetLabel().GetName(), e.Label) {
				continue
			}
			switch event.GetEvent() {
			case "labeled":
				last = event
			case "unlabeled":
				last = nil
			}
		}
		if response.NextPage == 0 {
			return last, nil
		}
		page.Page = response.NextPage
	}
}

func userOf(u *github.User) webhooks.User {
	return webhooks.User{Login: u.GetLogin(), ID: u.GetID(), Type: u.GetType()}
}
