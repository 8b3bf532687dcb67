package mission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/promote/gates"
)

// bot is the account that commits are by. Its id is part of the address by which GitHub shows its face beside them.
func (e *Engine) bot(ctx context.Context, gh *github.Client) (promote.Person, error) {
	bot := promote.Person{Login: e.login(), ID: e.botID.Load()}
	if bot.ID != 0 {
		return bot, nil
	}
	user, response, err := gh.Users.Get(ctx, bot.Login)
	if response != nil && response.StatusCode == http.StatusNotFound {
		return bot, nil // a GitHub that has no page for bots
	}
	if err != nil {
		return bot, fmt.Errorf("account %s: %w", bot.Login, err)
	}
	bot.ID = user.GetID()
	e.botID.Store(bot.ID)
	return bot, nil
}

func (e *Engine) request(ctx context.Context, m *store.Mission, run *store.Run, bot promote.Person) (promote.Request, error) {
	results, err := resultsOf(run)
	if err != nil {
		return promote.Request{}, err
	}
	receipt, err := receiptOf(run)
	if err != nil {
		return promote.Request{}, err
	}
	o, err := offerOf(run)
	if err != nil {
		return promote.Request{}, err
	}
	p, err := policyOf(m)
	if err != nil {
		return promote.Request{}, err
	}
	r := commitRequest(m, run, bot, p)
	if r.Style == (promote.Style{}) {
		r.Style = o.Style
	}
	r.Selection, r.Staged, r.CheckedTree, r.Gates, r.API = o.Selection, o.Staged, o.Tree, o.Gates, o.API
	r.Said, r.MissionURL = o.Said, e.commentURL(m)
	r.Labels, r.Reviewers, r.Took = p.Promote.Labels, p.Promote.Reviewers, tookOf(run)
	if m.Branch != "" {
		r.Previous = &promote.Branch{Name: m.Branch, Head: m.Head}
	}
	if r.DraftReason, err = draftReason(m, run, results); err != nil {
		return promote.Request{}, err
	}
	r.Draft = r.DraftReason != ""
	if r.FollowUp != nil {
		if r.FollowUp.Asked, err = e.askedFor(ctx, m, run); err != nil {
			return promote.Request{}, err
		}
	}
	r.Reach = append(e.reach(ctx, m), e.boundaryRows(ctx, m.Run)...)
	r.Approvals, r.OwnCounts = p.Review.Approvals, p.Review.Requester
	for _, c := range results {
		r.Checks = append(r.Checks, promote.Check{
			Name: c.Name, Command: c.Run, Conclusion: string(c.Conclusion), Summary: c.Summary, Required: c.Required, Duration: c.Duration, Annotations: len(c.Annotations),
		})
	}
	for _, item := range receipt.Items {
		row := rowOf(item)
		if item.Withheld != "" {
			r.Withheld = append(r.Withheld, row)
		} else {
			r.Given = append(r.Given, row)
		}
	}
	return r, nil
}

// receiptOf is what the agent of a run was given, and what not.
func receiptOf(run *store.Run) (r agent.Receipt, err error) {
	if err = json.Unmarshal([]byte(run.Receipt), &r); err != nil {
		err = fmt.Errorf("receipt of %s: %w", run.ID, err)
	}
	return r, err
}

// commentURL is where the mission is told as it goes.
func (e *Engine) commentURL(m *store.Mission) string {
	if m.CommentID <= 0 {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s/issues/%d#issuecomment-%d", e.GitHubURL, m.Owner, m.Name, m.Number, m.CommentID)
}

// draftReason says why a pull request is not ready to be merged; empty: it is.
func draftReason(m *store.Mission, run *store.Run, results []checks.Result) (string, error) {
	var reasons []string
	for _, r := range results {
		if !checks.Passed([]checks.Check{r.Check}, []checks.Result{r}) {
			reasons = append(reasons, fmt.Sprintf("the required check %q did not pass", r.Name))
		}
	}
	o, err := offerOf(run)
	if err != nil {
		return "", err
	}
	var open []string
	for _, g := range o.held(gates.Draft) {
		open = append(open, g.Gate)
	}
	if len(open) > 0 {
		reasons = append(reasons, "people have to decide on what the gates found ("+strings.Join(open, ", ")+"), which is below")
	}
	return strings.Join(reasons, "; "), nil
}

// askedFor is who asked for the round that a run is, with which words, and in which review.
func (e *Engine) askedFor(ctx context.Context, m *store.Mission, run *store.Run) (list []promote.Item, err error) {
	asks, err := e.Store.Asks(ctx, m.ID, run.Attempt)
	for _, a := range asks {
		item := promote.Item{What: a.Login, Note: a.Instruction}
		if a.Review > 0 {
			item.URL = fmt.Sprintf("%s#pullrequestreview-%d", m.PullURL, a.Review)
		}
		list = append(list, item)
	}
	return list, err
}

// itemWords name what stands on a page of GitHub.
var itemWords = map[string]string{
	"title": "the title", "issue": "the text", "request": "the request", "comment": "a comment", "thread": "a comment on lines", "hunk": "the lines of a comment",
}

// rowOf names something that the agent was given, or not.
func rowOf(item agent.Item) promote.Item {
	if words := itemWords[item.Kind]; words != "" && strings.HasPrefix(item.Source, "http") {
		return promote.Item{What: words, Note: noteOn(item), URL: item.Source}
	}
	return promote.Item{What: item.Kind + " " + item.Source, Note: noteOn(item)}
}

// noteOn is what a reviewer should know of something that the agent was given, or not.
func noteOn(item agent.Item) string {
	var notes []string
	if item.Author != "" {
		by := "by " + item.Author
		if item.Standing != "" {
			by += " (" + item.Standing + " access)"
		}
		notes = append(notes, by)
	}
	if item.Withheld != "" {
		notes = append(notes, item.Withheld)
	}
	if item.Cut > 0 {
		notes = append(notes, fmt.Sprintf("the last %d bytes were cut", item.Cut))
	}
	for _, h := range item.Hidden {
		what := "taken out"
		if h.Kept {
			what = "left in"
		}
		notes = append(notes, fmt.Sprintf("hidden text (%s, %d bytes) %s", h.Kind, h.Bytes, what))
	}
	return strings.Join(notes, "; ")
}
