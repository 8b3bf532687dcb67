package mission

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// A delivery that failed is sent again minutes or days later, behind others that tell what happened after it. What ends work, or
// commands it, is therefore looked at before it is obeyed. Where GitHub does not answer, the delivery is tried again; where it does not
// show the bot what it asks about, the delivery is believed.

// openAgain says whether an issue or pull request that was closed is open again. GitHub's API may be a second behind, so only a
// younger state counts.
func (e *Engine) openAgain(ctx context.Context, meta webhooks.Meta, number int, closed time.Time) (bool, error) {
	var now *github.Issue
	gh, err := e.GitHub.Client(ctx, repoOfMeta(meta), installation.Issues)
	if err == nil {
		now, _, err = gh.Issues.Get(ctx, meta.Repo.Owner, meta.Repo.Name, number)
	}
	if outcome.Class(err) != nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("issue %d: %w", number, err)
	}
	return now.GetState() == "open" && now.GetUpdatedAt().After(closed), nil
}

// reached says whether the App has access to the repository of a mission now.
func (e *Engine) reached(ctx context.Context, m *store.Mission) (bool, error) {
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Read)
	if err == nil {
		_, _, err = gh.Repositories.Get(ctx, m.Owner, m.Name)
	}
	if outcome.Class(err) != nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("access to %s/%s: %w", m.Owner, m.Name, err)
	}
	return true, nil
}

// takenBack says whether a comment has been deleted before its command was obeyed. Only one whose delivery was late pays a call for it.
func (e *Engine) takenBack(ctx context.Context, gh *github.Client, c webhooks.Slash) (bool, error) {
	if e.Now().Sub(c.At) < readAgain {
		return false, nil
	}
	var response *github.Response
	var err error
	switch c.Place {
	case webhooks.IssueComment:
		_, response, err = gh.Issues.GetComment(ctx, c.Repo.Owner, c.Repo.Name, c.CommentID)
	case webhooks.Review:
		_, response, err = gh.PullRequests.GetReview(ctx, c.Repo.Owner, c.Repo.Name, c.Number, c.CommentID)
	case webhooks.ReviewedLines:
		_, response, err = gh.PullRequests.GetComment(ctx, c.Repo.Owner, c.Repo.Name, c.CommentID)
	}
	if response != nil && response.StatusCode == http.StatusNotFound {
		return true, nil
	}
	if err != nil && outcome.Class(err) == nil {
		return false, fmt.Errorf("comment %d: %w", c.CommentID, err)
	}
	return false, nil
}

// toldLate answers a command that was said before the mission began: its delivery failed, and came again when somebody had found
// another way already. What was meant then was not this mission. Both times are GitHub's; checks begin at a time of ours.
func toldLate(m *store.Mission, c webhooks.Slash) string {
	if _, known := verbs[c.Verb]; c.Verb != "run" && !known || c.Verb == "status" {
		return ""
	}
	if m == nil || m.Kind != store.KindIssue || c.At.IsZero() || !c.At.Before(m.TriggeredAt) {
		return ""
	}
	return "Mission " + m.ID + " was begun after this was said, and the bot heard of it only now. Say `/sandpiper " + c.Verb + "` again if it still stands."
}
