package mission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// takeIssue pins what the mission works on, reads the policy there, and takes the label off.
func (e *Engine) takeIssue(ctx context.Context, m *store.Mission) (next, error) {
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Read)
	if err != nil {
		return next{}, err
	}
	if err := e.pinBase(ctx, gh, m); err != nil {
		return next{}, err
	}
	p, err := e.readPolicy(ctx, gh, m)
	if err != nil {
		return next{}, err
	}
	if err := e.allowed(ctx, gh, m, p); err != nil {
		return next{}, err
	}
	if err := e.pinOnto(ctx, m); err != nil {
		return next{}, err
	}
	if _, err := e.agentFor(p); err != nil {
		return next{}, outcome.End(outcome.BlockedByPolicy, err, "%v", err)
	}
	if err := e.preflight(ctx, gh, m, p); err != nil {
		return next{}, err
	}
	if err := e.takeLabel(ctx, m); err != nil {
		return next{}, err
	}
	return next{step: stepQueue, found: fmt.Sprintf("mission %s, base %.7s (%s)", m.ID, m.Base, m.BaseBranch)}, nil
}

// pinBase fixes the commit that the mission starts from. It is never computed again: what the agent is given, what it
// changes and what is promoted all refer to this one.
func (e *Engine) pinBase(ctx context.Context, gh *github.Client, m *store.Mission) error {
	if m.Base != "" {
		return nil
	}
	repo, _, err := gh.Repositories.Get(ctx, m.Owner, m.Name)
	if err != nil {
		return fmt.Errorf("repository %s/%s: %w", m.Owner, m.Name, err)
	}
	if repo.GetID() != m.RepositoryID {
		return outcome.End(outcome.BlockedByHost, nil, "the name %s/%s belongs to another repository now", m.Owner, m.Name)
	}
	m.Owner, m.Name = repo.GetOwner().GetLogin(), repo.GetName() // it may have been renamed
	if repo.GetArchived() {
		return outcome.End(outcome.BlockedByRule, nil, "the repository is archived, so nothing can be pushed to it")
	}
	branch := repo.GetDefaultBranch()
	// From git itself: that is no call of the API, which may be a second behind.
	ref := "refs/heads/" + branch
	select {
	case e.pins <- struct{}{}:
		defer func() { <-e.pins }()
	case <-ctx.Done():
		return ctx.Err()
	}
	root := "refs/heads/" + promote.BranchRoot
	refs, err := e.Git.LsRemote(ctx, e.remote(m, installation.Read), ref, root)
	if err != nil {
		return fmt.Errorf("branch %s: %w", branch, err)
	}
	if m.Kind == store.KindIssue && refs[root] != "" {
		return outcome.End(outcome.BlockedByRule, nil, "%s", promote.InTheWay)
	}
	if refs[ref] == "" {
		return noCommit(ctx, gh, m, branch)
	}
	m.BaseBranch, m.Base = branch, refs[ref]
	return nil
}

// noCommit says that there is no commit to start from, if the API says so too: for git, the page of a proxy is a repository without refs.
func noCommit(ctx context.Context, gh *github.Client, m *store.Mission, branch string) error {
	_, response, err := gh.Git.GetRef(ctx, m.Owner, m.Name, "heads/"+branch)
	switch {
	case err == nil:
		return outcome.Passing("git is shown no commit on " + branch + ", where the API has one")
	case response != nil && (response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusConflict): // 409: it is empty
		return outcome.End(outcome.BlockedByRule, nil, "the repository has no commit on %s yet; push one first", branch)
	}
	return fmt.Errorf("branch %s: %w", branch, err)
}

// readPolicy reads the policy of the default branch at a pinned commit, and keeps it with the mission.
func (e *Engine) readPolicy(ctx context.Context, gh *github.Client, m *store.Mission) (*policy.Policy, error) {
	if m.Policy != "" {
		return policyOf(m)
	}
	p, source, err := e.loadPolicy(ctx, gh, m)
	var invalid *policy.Invalid
	if errors.As(err, &invalid) {
		return nil, outcome.End(outcome.BlockedByPolicy, err, "%s", invalid.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	m.Policy, m.PolicySource = string(text), source
	return p, nil
}

func (e *Engine) loadPolicy(ctx context.Context, gh *github.Client, m *store.Mission) (*policy.Policy, string, error) {
	if e.Policy == "" {
		p, source, err := policy.Load(ctx, gh, m.Owner, m.Name, m.Base)
		return p, source.String(), err
	}
	text, err := os.ReadFile(e.Policy)
	if err != nil {
		return nil, "", outcome.End(outcome.Infrastructure, err, "the policy file of the bot's settings cannot be read")
	}
	p, err := policy.Parse(filepath.Base(e.Policy), text)
	return p, "the bot's own", err
}

func policyOf(m *store.Mission) (*policy.Policy, error) {
	p := new(policy.Policy)
	if err := json.Unmarshal([]byte(m.Policy), p); err != nil {
		return nil, fmt.Errorf("policy of mission %s: %w", m.ID, err)
	}
	return p, nil
}

// allowed asks for more than write access where the policy does.
func (e *Engine) allowed(ctx context.Context, gh *github.Client, m *store.Mission, p *policy.Policy) error {
	if p.Triggers.Who == "" || p.Triggers.Who == "write" {
		return nil // was asked before the mission began
	}
	who, err := standing.Of(ctx, gh, repoOf(m), m.Requester)
	if err != nil {
		return err
	}
	if !p.Triggers.Allows(cmp.Or(who.Role, who.Permission)) && who.Permission != "admin" {
		return outcome.End(outcome.BlockedByPolicy, nil, "the policy lets only people with %s access start missions, and %s has %s access", p.Triggers.Who, m.Requester, who.Word())
	}
	return nil
}

// takeLabel takes the trigger label off, so that it can be put on again.
func (e *Engine) takeLabel(ctx context.Context, m *store.Mission) error {
	var t task
	if err := json.Unmarshal([]byte(m.Task), &t); err != nil {
		return fmt.Errorf("task of mission %s: %w", m.ID, err)
	}
	if t.Label == "" {
		return nil
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	return removeLabel(ctx, gh, repoOf(m), m.Number, t.Label)
}

// agentFor is the agent that a policy or the settings name.
func (e *Engine) agentFor(p *policy.Policy) (policy.Agent, error) {
	if !p.Agent.IsZero() {
		return p.Agent, nil
	}
	if strings.TrimSpace(e.Agent) == "" {
		return policy.Agent{}, errors.New("no agent is named: write `agent:` in " + policy.Path + " on the default branch, or have the bot set up with SANDPIPER_AGENT")
	}
	return policy.ParseAgent(e.Agent)
}
