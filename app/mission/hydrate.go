package mission

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/app/tree"
)

// taskDir is where what the agent is given lies on the host; it is mounted read-only beside the workspace.
func (e *Engine) taskDir(run string) string { return filepath.Join(e.runDir(run), "task") }

// hydrate lays what the agent is given beside the workspace and returns the receipt as JSON.
func (e *Engine) hydrate(ctx context.Context, m *store.Mission, talk *conversation) (string, error) {
	p, err := policyOf(m)
	if err != nil {
		return "", err
	}
	t, err := e.readTask(ctx, m, talk)
	if err != nil {
		return "", err
	}
	files, err := tree.Open(e.Git.Dir(storeKey(m.RepositoryID)), m.Base)
	if err != nil {
		return "", err
	}
	receipt, err := agent.Hydrate(e.taskDir(m.Run), t, files, p)
	if err != nil {
		return "", fmt.Errorf("task of %s: %w", m.Run, err)
	}
	if err := e.stageAgent(m); err != nil {
		return "", err
	}
	return marshal(receipt), nil
}

// readTask gathers the issue's text as of the trigger, and its comments with their authors' standing.
func (e *Engine) readTask(ctx context.Context, m *store.Mission, talk *conversation) (agent.Task, error) {
	var text task
	if err := json.Unmarshal([]byte(m.Task), &text); err != nil {
		return agent.Task{}, fmt.Errorf("task of mission %s: %w", m.ID, err)
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return agent.Task{}, err
	}
	people := e.people(gh, repoOf(m), agent.Person{Login: m.Requester, Standing: text.Role})
	t := agent.Task{
		Repository: m.Owner + "/" + m.Name, Instruction: m.Instruction, TriggeredAt: m.TriggeredAt,
		Issue: agent.Issue{
			Number: m.Number, Title: text.Title, Body: text.Body,
			URL: fmt.Sprintf("%s/%s/%s/issues/%d", e.GitHubURL, m.Owner, m.Name, m.Number),
		},
	}
	if t.Issue.Author, err = people(ctx, text.Author, false); err != nil {
		return t, err
	}
	if t.Requester, err = people(ctx, m.Requester, false); err != nil {
		return t, err
	}
	if m.Pull > 0 {
		if t.FollowUp, err = e.readFollowUp(ctx, m); err != nil {
			return t, err
		}
	}
	comments, err := talk.comments(ctx)
	if err != nil {
		return t, err
	}
	for _, c := range comments {
		if c.GetUser().GetLogin() == e.login() {
			continue // what we said ourselves is no part of the task
		}
		author, err := people(ctx, c.GetUser().GetLogin(), c.GetUser().GetType() == "Bot")
		if err != nil {
			return t, err
		}
		t.Comments = append(t.Comments, agent.Comment{
			ID: c.GetID(), Body: c.GetBody(), Author: author, URL: c.GetHTMLURL(), CreatedAt: c.GetCreatedAt().Time, UpdatedAt: c.GetUpdatedAt().Time,
		})
	}
	return t, nil
}

// mostComments is how many comments are read; more than an agent is given.
const mostComments = 500

// conversation is the comments of a mission's issue. They are read once for a step, so that an agent is given exactly those
// whose authors the boundary was chosen for.
type conversation struct {
	engine  *Engine
	mission *store.Mission
	all     []*github.IssueComment // nil: not read yet
}

func (c *conversation) comments(ctx context.Context) ([]*github.IssueComment, error) {
	if c.all != nil {
		return c.all, nil
	}
	gh, err := c.engine.GitHub.Client(ctx, repoOf(c.mission), installation.Issues)
	if err != nil {
		return nil, err
	}
	c.all, err = listComments(ctx, gh, c.mission)
	return c.all, err
}

func listComments(ctx context.Context, gh *github.Client, m *store.Mission) ([]*github.IssueComment, error) {
	all := []*github.IssueComment{}
	options := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for len(all) < mostComments {
		page, response, err := gh.Issues.ListComments(ctx, m.Owner, m.Name, m.Number, options)
		if err != nil {
			return nil, fmt.Errorf("comments of %d: %w", m.Number, err)
		}
		all = append(all, page...)
		if response.NextPage == 0 {
			break
		}
		options.Page = response.NextPage
	}
	return all, nil
}

// people looks up what an author may do here, each person once, and those whose standing is told not at all.
func (e *Engine) people(gh *github.Client, repo installation.Repo, told ...agent.Person) func(ctx context.Context, login string, bot bool) (agent.Person, error) {
	known := map[string]agent.Person{}
	for _, p := range told {
		if p.Standing != "" {
			known[p.Login] = p
		}
	}
	return func(ctx context.Context, login string, bot bool) (agent.Person, error) {
		if p, ok := known[login]; ok || login == "" || bot {
			if !ok {
				p = agent.Person{Login: login, Bot: bot}
			}
			return p, nil
		}
		who, err := standing.Of(ctx, gh, repo, login)
		if err != nil {
			return agent.Person{}, err
		}
		p := agent.Person{Login: login, Standing: who.Word()}
		known[login] = p
		return p, nil
	}
}

// staged is where a copy of an agent of this machine lies: beside what the agent is given, since a sandbox cannot see the
// directory that it came from.
func (e *Engine) staged(m *store.Mission, file string) string {
	return filepath.Join(e.taskDir(m.Run), "bin", filepath.Base(file))
}

func (e *Engine) stageAgent(m *store.Mission) error {
	file, ok := e.hostAgent()
	if !ok {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return outcome.End(outcome.Infrastructure, err, "the agent of the settings cannot be read")
	}
	to := e.staged(m, file)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if err := os.WriteFile(to, text, 0o755); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// hostAgent says whether the settings' agent is a program of this machine, which is an absolute path. Everything else is a
// profile, or a command that the sandbox has to find.
func (e *Engine) hostAgent() (file string, ok bool) {
	if !filepath.IsAbs(e.Agent) {
		return "", false
	}
	info, err := os.Stat(e.Agent)
	return e.Agent, err == nil && info.Mode().IsRegular()
}
