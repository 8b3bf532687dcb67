package mission

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// thread is a conversation on lines, the oldest comment first.
type thread []*github.PullRequestComment

// root is the id that replies go to.
func (t thread) root() int64 { return t[0].GetID() }

func (e *Engine) isOwn(c *github.PullRequestComment) bool {
	return c.GetUser().GetLogin() == e.login()
}

// threads lists the conversations of a pull request.
func (e *Engine) threads(ctx context.Context, gh *github.Client, m *store.Mission) (all []thread, err error) {
	at := map[int64]int{}
	options := &github.PullRequestListCommentsOptions{Sort: "created", Direction: "asc", ListOptions: github.ListOptions{PerPage: 100}}
	for count := 0; count < mostComments; {
		page, response, err := gh.PullRequests.ListComments(ctx, m.Owner, m.Name, m.Pull, options)
		if err != nil {
			return nil, fmt.Errorf("review comments of %d: %w", m.Pull, err)
		}
		for _, c := range page {
			count++
			i, known := at[c.GetInReplyTo()]
			if !known {
				i = len(all)
				all = append(all, nil)
				at[c.GetID()] = i
			}
			all[i] = append(all[i], c)
		}
		if response.NextPage == 0 {
			break
		}
		options.Page = response.NextPage
	}
	return all, nil
}

// openThreads are the conversations in which people have the last word.
func (e *Engine) openThreads(ctx context.Context, gh *github.Client, m *store.Mission, people func(context.Context, string, bool) (agent.Person, error)) (open []agent.Thread, err error) {
	all, err := e.threads(ctx, gh, m)
	if err != nil {
		return nil, err
	}
	outsiders, err := e.forOutsiders(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if e.isOwn(t[len(t)-1]) {
			continue
		}
		given := agent.Thread{Path: t[0].GetPath(), Line: t[0].GetLine(), Hunk: t[0].GetDiffHunk()}
		if given.Line == 0 {
			given.Line, given.Outdated = t[0].GetOriginalLine(), t[0].GetOriginalLine() > 0
		}
		for _, c := range t {
			if e.isOwn(c) {
				continue
			}
			author, err := people(ctx, c.GetUser().GetLogin(), c.GetUser().GetType() == "Bot")
			if err != nil {
				return nil, err
			}
			withhold := ""
			if !outsiders && !slices.Contains([]string{"admin", "maintain", "write"}, author.Standing) {
				withhold = "by somebody without write access: the boundary of this run is for the words of people who may write"
			}
			given.Comments = append(given.Comments, agent.Comment{
				Withhold: withhold,
				ID:       c.GetID(), Body: c.GetBody(), Author: author, URL: c.GetHTMLURL(), CreatedAt: c.GetCreatedAt().Time, UpdatedAt: c.GetUpdatedAt().Time,
			})
		}
		open = append(open, given)
	}
	return open, nil
}
