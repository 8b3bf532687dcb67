package mission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// A mission whose pull request waits can be sent on: by a review that requests changes, by a command, or by a button. What was
// asked is recorded, and the waiting step begins a round with it: a run on the head of the pull request, whose result is pushed
// onto the same branch. It stops where somebody else has pushed, until the branch is handed back.

// isFollowUp says whether a run works on the mission's open pull request.
func isFollowUp(m *store.Mission, run *store.Run) bool {
	return m.Kind == store.KindIssue && run.Base != m.Base
}

// baseOf is the commit that the mission's present run starts from: the head of its pull request once there is one.
func baseOf(m *store.Mission) (commit, refspec, from string) {
	if m.Pull > 0 && !isUpdate(m) {
		return m.Head, fmt.Sprintf("+refs/pull/%d/head:refs/sandpiper/fetch/pull/%[1]d", m.Pull), fmt.Sprintf("pull/%d", m.Pull)
	}
	if isFork(m) {
		return m.Base, fmt.Sprintf("+refs/pull/%d/head:refs/sandpiper/fetch/pull/%[1]d", m.Number), m.BaseBranch
	}
	return m.Base, fmt.Sprintf("+refs/heads/%s:refs/sandpiper/fetch/heads/%[1]s", m.BaseBranch), m.BaseBranch
}

// fix obeys `/sandpiper fix [words]` and `/sandpiper continue`: another round, also on top of what others have pushed by now.
func (e *Engine) fix(ctx context.Context, _ *github.Client, m *store.Mission, c webhooks.Slash) (string, error) {
	p, err := policyOf(m)
	switch {
	case m.Ended():
		return overAlready(m), nil
	case m.Want == wantEnd || m.Want == wantMerged:
		return "Mission " + m.ID + " is ending: its pull request is closed.", nil
	case m.Pull == 0 && isFork(m):
		return "Mission " + m.ID + " is not done yet (" + wordsFor(m) + "). Once its review is here, or after `/sandpiper discard`, `/sandpiper fix` starts anew.", nil
	case m.Pull == 0:
		return "Mission " + m.ID + " has no pull request yet (" + wordsFor(m) + "). Once it has one, `/sandpiper fix` sends it on.", nil
	case err != nil:
		return "", err
	case m.Attempt >= p.Budget.Rounds && m.Step == stepWaiting:
		return roundsUsed(m, p.Budget.Rounds), nil
	}
	head, err := e.branchHead(ctx, m)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s:%d:%d", c.Place, c.CommentID, c.Line)
	switch {
	case c.Verb == "update":
		key = updateKey + key
	case c.Place == webhooks.Review: // which may have been an ask already, by its state
		key = reviewKey(c.CommentID)
	}
	ask := store.Ask{Key: key, Mission: m.ID, Login: c.Author.Login, Instruction: c.Args, Head: head, HandsBack: true, At: c.At}
	if c.Place == webhooks.Review {
		ask.Review = c.CommentID
	}
	if err := e.Store.Ask(ctx, ask, e.Now()); err != nil {
		return "", err
	}
	if m.Step == stepWaiting {
		return fmt.Sprintf("Round %d begins, on `%.12s`.", m.Attempt+1, head), nil
	}
	return "Noted. If the agent of round " + fmt.Sprint(m.Attempt) + " has begun, the round after it takes this up.", nil
}

func reviewKey(id int64) string { return fmt.Sprintf("review:%d", id) }

func roundsUsed(m *store.Mission, rounds int) string {
	return fmt.Sprintf("Mission %s has had its %d runs, all that the policy allows (`budget.rounds`). It needs a person now: push to the branch `%s`, or `/sandpiper discard` and start anew.", m.ID, rounds, m.Branch)
}

// reviewSubmitted looks at the gate again, and sends the mission on when a person with write access requested changes. Reviews of
// bots never do: two of them would go on for ever.
func (e *Engine) reviewSubmitted(ctx context.Context, c webhooks.ReviewSubmitted) (string, error) {
	said, err := e.reviewed(ctx, c)
	if err != nil || c.Action != "submitted" || c.State != "changes_requested" {
		return said, err
	}
	m, err := e.missionOfPull(ctx, c.Repo.ID, c.Number)
	if m == nil || err != nil {
		return said, err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return "", err
	}
	review, response, err := gh.PullRequests.GetReview(ctx, m.Owner, m.Name, m.Pull, c.ReviewID)
	if response != nil && response.StatusCode == http.StatusNotFound {
		return said + "; the review is gone", nil
	}
	if err != nil {
		return "", fmt.Errorf("review %d: %w", c.ReviewID, err)
	}
	if !strings.EqualFold(review.GetState(), "CHANGES_REQUESTED") || review.GetUser().GetType() != "User" {
		return said + "; no round: not a person's wish for changes", nil
	}
	who, err := standing.Of(ctx, gh, repoOf(m), c.Author.Login)
	if err != nil || !who.MayWrite() {
		return said + "; no round: no write access", err
	}
	return said + "; asked for a round", e.Store.Ask(ctx, store.Ask{
		Key: reviewKey(c.ReviewID), Mission: m.ID, Login: review.GetUser().GetLogin(), Review: c.ReviewID, At: review.GetSubmittedAt().Time,
	}, e.Now())
}

// waiting is the state of a mission whose next move is a person's. When one has asked for another round, it begins.
func (e *Engine) waiting(ctx context.Context, m *store.Mission) (next, error) {
	idle := next{step: stepWaiting, idle: true}
	if m.Kind != store.KindIssue || m.Pull == 0 {
		return idle, nil
	}
	asks, err := e.Store.Asks(ctx, m.ID, 0)
	if err != nil || len(asks) == 0 {
		return idle, err
	}
	why, head, err := e.mayGoOn(ctx, m, asks)
	if err != nil {
		return next{}, err
	}
	if why != "" {
		return next{step: stepWaiting, idle: true, found: why}, e.Store.HoldAsks(ctx, asks)
	}
	onto, err := e.beginUpdate(ctx, m, asks)
	if err != nil {
		return next{}, err
	}
	m.Attempt++ // from here on nothing fails: a step that does is saved, and done again
	m.Run = runID(m)
	m.Head, m.Outcome, m.Message = head, "", ""
	m.Host, m.ReadyAt = "", e.Now()
	m.CommentDigest = "" // the time of the last one stands in it
	return next{step: stepQueue, found: fmt.Sprintf("round %d on %.7s%s, asked for by %s", m.Attempt, head, onto, asks[0].Login)}, nil
}

// mayGoOn says from which head the next round starts, or why there is none; that is said on the pull request, once.
func (e *Engine) mayGoOn(ctx context.Context, m *store.Mission, asks []store.Ask) (why, head string, err error) {
	p, err := policyOf(m)
	if err != nil {
		return "", "", err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return "", "", err
	}
	if m.Attempt >= p.Budget.Rounds {
		return "its rounds are used up", "", e.say.Once(ctx, gh, repoOf(m), m.Pull, "rounds:"+m.ID, roundsUsed(m, p.Budget.Rounds))
	}
	if head, err = e.branchHead(ctx, m); err != nil {
		return "", "", err
	}
	ours, err := e.ours(ctx, m, head)
	if err != nil || ours {
		return "", head, err
	}
	for _, a := range asks {
		if a.HandsBack && a.Head == head {
			return "", head, nil
		}
	}
	return "branch moved", "", e.sayMoved(ctx, gh, m, head)
}

// branchHead is where the mission's branch is, by git itself: the API may show an older head for a moment (quern-dev/quern#88).
func (e *Engine) branchHead(ctx context.Context, m *store.Mission) (string, error) {
	ref := "refs/heads/" + m.Branch
	refs, err := e.Git.LsRemote(ctx, e.remote(m, installation.Read), ref)
	if err != nil {
		return "", fmt.Errorf("branch %s: %w", m.Branch, err)
	}
	if refs[ref] == "" {
		return "", outcome.End(outcome.BlockedByRule, nil, "the branch %q of the pull request is gone", m.Branch)
	}
	return refs[ref], nil
}

// ours says whether a head is what the bot pushed last, or has staged to push: recorded before the push, so that an event of it
// cannot come too early.
func (e *Engine) ours(ctx context.Context, m *store.Mission, head string) (bool, error) {
	if head == m.Head {
		return true, nil
	}
	run, err := e.Store.Run(ctx, m.Run)
	if errors.Is(err, store.ErrNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o, err := offerOf(run)
	return o.Commit == head, err
}

// watchBranch says, once, that the bot keeps its hands off a branch that somebody else has pushed to.
func (e *Engine) watchBranch(ctx context.Context, m *store.Mission) error {
	head, err := e.branchHead(ctx, m)
	if err != nil {
		return err
	}
	ours, err := e.ours(ctx, m, head)
	if err != nil || ours {
		return err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	return e.sayMoved(ctx, gh, m, head)
}

const handBack = "`/sandpiper fix [words]` or `/sandpiper continue` hands it back: the next round builds on what is there."

func (e *Engine) sayMoved(ctx context.Context, gh *github.Client, m *store.Mission, head string) error {
	return e.say.Once(ctx, gh, repoOf(m), m.Pull, fmt.Sprintf("moved:%s:%s", m.ID, m.Head), fmt.Sprintf(
		"The branch moved: it is at `%.12s`, and Sandpiper left it at `%.12s`. Somebody else has pushed, so Sandpiper leaves it alone. %s", head, m.Head, handBack))
}

// tellRound says on the pull request what became of a round, once.
func (e *Engine) tellRound(ctx context.Context, m *store.Mission) error {
	if m.Kind != store.KindIssue || m.Pull == 0 || m.Outcome == "" {
		return nil
	}
	run, err := e.Store.Run(ctx, m.Run)
	if errors.Is(err, store.ErrNone) || err == nil && !isFollowUp(m, run) && !isUpdate(m) {
		return nil
	}
	if err != nil {
		return err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	return e.say.Once(ctx, gh, repoOf(m), m.Pull, "round:"+m.Run, roundText(m, run.Attempt))
}

func roundText(m *store.Mission, round int) string {
	if m.Outcome == string(outcome.Changed) {
		return fmt.Sprintf("Round %d: **%s**, `%.12s` is pushed. %s", round, m.Outcome, m.Head, outcome.Changed.Next())
	}
	text := fmt.Sprintf("Round %d: **%s**: %s. The pull request is as it was.", round, m.Outcome, quote.Text(strings.TrimRight(m.Message, ".")))
	if m.Step == stepClose { // the mission is over, as when the pull request is closed
		return text
	}
	return text + " " + followNext
}

const followNext = "The pull request is open. `/sandpiper fix [words]` starts another round; `/sandpiper discard` closes it."

// afterEnd is the step after the work of a run has ended without a result: a pull request that is there goes on waiting for people.
func afterEnd(m *store.Mission, final *outcome.Ended) string {
	if m.Kind == store.KindIssue && m.Pull > 0 && m.Step != stepWaiting && m.Step != stepArchive && final.Outcome != outcome.BlockedByHost && !errors.As(final.Cause, new(*promote.ErrClosed)) {
		return stepArchive
	}
	return stepClose
}

// issueOf is the issue that a mission is about, when a command to it was said on its pull request.
func (e *Engine) issueOf(ctx context.Context, gh *github.Client, m *store.Mission, said webhooks.Issue) (webhooks.Issue, error) {
	if said.Number == m.Number {
		return said, nil
	}
	i, _, err := gh.Issues.Get(ctx, m.Owner, m.Name, m.Number)
	if err != nil {
		return said, fmt.Errorf("issue %d: %w", m.Number, err)
	}
	author := webhooks.User{Login: i.GetUser().GetLogin(), ID: i.GetUser().GetID(), Type: i.GetUser().GetType()}
	return webhooks.Issue{Number: m.Number, Title: i.GetTitle(), Body: i.GetBody(), State: i.GetState(), Author: author, UpdatedAt: i.GetUpdatedAt().Time}, nil
}
