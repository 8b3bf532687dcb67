package mission

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// preflight ends a mission whose result the repository's rules would not take, before an agent works for nothing.
func (e *Engine) preflight(ctx context.Context, gh *github.Client, m *store.Mission, p *policy.Policy) error {
	if isFork(m) {
		return nil // nothing is pushed
	}
	bot, err := e.bot(ctx, gh)
	if err != nil {
		return err
	}
	r := commitRequest(m, &store.Run{CreatedAt: m.CreatedAt}, bot, p)
	rules, err := promote.ReadRules(ctx, gh, r)
	if err != nil {
		return err
	}
	m.OwnRules = marshal(rules.Own)
	r.API = byAPI(p, rules)
	if p.Promote.Title == "" {
		t := taskOf(m)
		t.Style = rules.StyleFor(r)
		r.Style, m.Task = t.Style, marshal(t)
	}
	if err := promote.Refusal(rules.Unmet(r)); err != nil {
		return outcome.End(outcome.BlockedByRule, err, "the rules of this repository would not take a pull request of the bot: %s", outcome.Plain(err))
	}
	return nil
}

// byAPI says whether commits are made by GitHub's API: where they have to be signed, or the policy says so.
func byAPI(p *policy.Policy, rules promote.Rules) bool {
	if p.Promote.Transport != "" {
		return p.Promote.Transport == "api"
	}
	return rules.Signatures()
}

// transport reads the rules of the base once more when the result is there, since they may have changed meanwhile and would
// keep the pull request from being merged. Those of the bot's own branch are as they were: GitHub holds the push to them.
func (e *Engine) transport(ctx context.Context, gh *github.Client, m *store.Mission, p *policy.Policy, r promote.Request) (api bool, err error) {
	var rules promote.Rules
	if p.Promote.Transport != "" {
		return byAPI(p, rules), nil
	}
	if rules.Base, err = promote.ReadBaseRules(ctx, gh, r); err != nil {
		return false, fmt.Errorf("transport: %w", err)
	}
	if m.OwnRules != "" {
		if err := json.Unmarshal([]byte(m.OwnRules), &rules.Own); err != nil {
			return false, fmt.Errorf("rules of mission %s: %w", m.ID, err)
		}
	}
	return byAPI(p, rules), nil
}
