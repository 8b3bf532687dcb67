package mission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

// Boundary says what the probes have last found out about a backend.
type Boundary interface {
	Proven(backend string) (r probe.Result, known bool)
}

// trust is how strong the boundary of a run has to be, and why. It is decided once for a run, recorded, and shown.
type trust struct {
	Tier    probe.Tier `json:"tier"`
	Backend string     `json:"backend"`
	Because string     `json:"because"` // what made it an outsider's; for a colleague's: whose text it all is
	Voices  []voice    `json:"voices"`
}

// voice is a person who wrote something that the agent reads, or that is executed, and what GitHub says they may do here.
type voice struct {
	What       string `json:"what"` // the issue, a comment, the request, a commit
	Login      string `json:"login"`
	Permission string `json:"permission"`
	Role       string `json:"role,omitempty"`
}

// trusted decides on a run, and waits while the backend that it needs is closed. A run that needs a stronger boundary than there is
// ends here: it never gets a weaker one. Only an issue has a talk that is heard.
func (e *Engine) trusted(ctx context.Context, m *store.Mission, talk *conversation) (held *next, err error) {
	t, err := e.trustOf(ctx, m, talk)
	if err != nil {
		return nil, err
	}
	if e.Boundary == nil {
		return nil, outcome.End(outcome.Infrastructure, nil, "nothing probes the boundary, so no work is begun")
	}
	r, known := e.Boundary.Proven(t.Backend)
	switch {
	case !known:
		return e.wait(ctx, m, "waiting until the boundary of "+t.Backend+" is probed", time.Second)
	case r.Unavailable && t.Tier == probe.Outsider:
		return nil, outcome.End(outcome.BlockedByPolicy, nil, "%s, and this bot has no backend that holds it: %s. An admin can install runc and set SANDPIPER_BACKEND_OUTSIDER=container; or a person with write access writes the task in an issue of their own", t.Because, r.Why())
	case r.Unavailable:
		return nil, outcome.End(outcome.Infrastructure, nil, "%s", r.Why())
	case !r.OK():
		return e.wait(ctx, m, "waiting: backend "+t.Backend+" is closed, its boundary does not hold: "+r.Why(), 5*time.Second)
	case t.Tier == probe.Outsider && r.Tier != probe.Outsider:
		return nil, outcome.End(outcome.BlockedByPolicy, nil, "%s, and backend %s is not strong enough here: %s. See 'sandpiper probe' on the bot's machine; with runc installed, SANDPIPER_BACKEND_OUTSIDER=container is", t.Because, t.Backend, strings.Join(r.Lowered, "; "))
	}
	if strings.HasPrefix(m.Message, "waiting") {
		m.Message = ""
	}
	return nil, nil
}

func (e *Engine) wait(ctx context.Context, m *store.Mission, why string, again time.Duration) (*next, error) {
	if m.Message != why {
		m.Message = why
		if err := e.tell(ctx, m); err != nil {
			e.Log.Warn("status comment", "mission", m.ID, "error", err)
		}
	}
	return &next{step: m.Step, after: again, found: why}, nil
}

// trustOf is the decision on the mission's present run.
func (e *Engine) trustOf(ctx context.Context, m *store.Mission, talk *conversation) (t trust, err error) {
	if t, err = e.savedTrust(ctx, m.Run); err == nil || !errors.Is(err, store.ErrNone) {
		return t, err
	}
	p, err := policyOf(m)
	if err != nil {
		return t, err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return t, err
	}
	d := &decision{engine: e, gh: gh, mission: m, policy: p, known: map[string]standing.Standing{}}
	if m.Kind != store.KindIssue {
		err = d.pull(ctx)
	} else {
		err = d.issue(ctx, talk)
	}
	if err != nil {
		return t, err
	}
	t = d.end(e.Settings)
	if t.Tier == probe.Outsider && p.Trust.Outsiders == policy.Refuse {
		return t, outcome.End(outcome.BlockedByPolicy, nil, "%s, and the policy refuses that (trust: outsiders)", t.Because)
	}
	if err := e.Store.SaveTrust(ctx, m.Run, m.ID, string(t.Tier), marshal(t)); err != nil {
		return t, err
	}
	e.Audit(ctx, audit.Entry{Kind: "trust", Mission: m.ID, Run: m.Run, Repository: m.Owner + "/" + m.Name, Data: t})
	return t, nil
}

func (e *Engine) savedTrust(ctx context.Context, run string) (t trust, err error) {
	text, err := e.Store.Trust(ctx, run)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return t, fmt.Errorf("trust of %s: %w", run, err)
	}
	return t, nil
}

// backendOf is what provides the sandboxes of a run; empty before it was decided.
func (e *Engine) backendOf(ctx context.Context, run string) (string, error) {
	t, err := e.savedTrust(ctx, run)
	if errors.Is(err, store.ErrNone) {
		return "", nil
	}
	return t.Backend, err
}

// decision gathers the voices of one run.
type decision struct {
	engine  *Engine
	gh      *github.Client
	mission *store.Mission
	policy  *policy.Policy
	known   map[string]standing.Standing
	voices  []voice
	because []string // what is an outsider's
}

// hear takes up who wrote something. An App's or a bot's text is nobody's with write access: it repeats what others wrote.
func (d *decision) hear(ctx context.Context, what, login string) error {
	v := voice{What: what, Login: login, Permission: "none"}
	if login != "" && !strings.HasSuffix(login, "[bot]") {
		who, known := d.known[login]
		if !known {
			var err error
			if who, err = standing.Of(ctx, d.gh, repoOf(d.mission), login); err != nil {
				return err
			}
			d.known[login] = who
		}
		v.Permission, v.Role = who.Permission, who.Role
		if who.MayWrite() && (d.policy.Trust.Colleagues == "" || d.policy.Trust.Colleagues == "write" || who.Permission == "admin" ||
			allows(d.policy.Trust.Colleagues, cmp.Or(who.Role, who.Permission))) {
			d.voices = append(d.voices, v)
			return nil
		}
	}
	d.voices = append(d.voices, v)
	whose := "an account that is gone"
	if login != "" {
		whose = login + ", who has " + cmp.Or(v.Role, v.Permission, "no") + " access here"
	}
	d.outside(fmt.Sprintf("%s is by %s", what, whose))
	return nil
}

func allows(need, have string) bool { return policy.Triggers{Who: need}.Allows(have) }

func (d *decision) outside(why string) { d.because = append(d.because, why) }

// issue hears the request, the issue's text, and the comments that the agent may be given: those up to the trigger.
func (d *decision) issue(ctx context.Context, talk *conversation) error {
	m := d.mission
	var text task
	if err := json.Unmarshal([]byte(m.Task), &text); err != nil {
		return fmt.Errorf("task of mission %s: %w", m.ID, err)
	}
	if text.May != "" && d.engine.Now().Sub(m.CreatedAt) < readAgain { // was asked a moment ago
		d.known[m.Requester] = standing.Standing{Permission: text.May, Role: text.Role}
	}
	if err := d.hear(ctx, "the request", m.Requester); err != nil {
		return err
	}
	if err := d.hear(ctx, fmt.Sprintf("the text of #%d", m.Number), text.Author); err != nil {
		return err
	}
	if text.Fork {
		d.fork("")
	}
	comments, err := talk.comments(ctx)
	if err != nil {
		return err
	}
	for _, c := range comments {
		login := c.GetUser().GetLogin()
		if c.GetCreatedAt().After(m.TriggeredAt) || login == d.engine.login() {
			continue // withheld from the agent
		}
		if err := d.hear(ctx, fmt.Sprintf("comment %d", c.GetID()), login); err != nil {
			return err
		}
	}
	return nil
}

// pull hears who wrote what the checks of a pull request execute. Whoever pushes to a branch of this repository may write to it, so
// a commit by somebody whom GitHub does not know is theirs; a fork is anybody's.
func (d *decision) pull(ctx context.Context) error {
	m := d.mission
	pr, _, err := d.gh.PullRequests.Get(ctx, m.Owner, m.Name, m.Number)
	if err != nil {
		return fmt.Errorf("pull request %d: %w", m.Number, err)
	}
	if from := pr.GetHead().GetRepo(); from.GetID() != m.RepositoryID {
		d.fork(pr.GetHead().GetUser().GetLogin())
	}
	if login := pr.GetUser().GetLogin(); login == d.engine.login() {
		err = d.own(ctx)
	} else {
		err = d.hear(ctx, fmt.Sprintf("#%d", m.Number), login)
	}
	if err != nil {
		return err
	}
	commits, _, err := d.gh.PullRequests.ListCommits(ctx, m.Owner, m.Name, m.Number, &github.ListOptions{PerPage: 100})
	if err != nil {
		return fmt.Errorf("commits of pull request %d: %w", m.Number, err)
	}
	heard := map[string]bool{"": true, d.engine.login(): true, "web-flow": true}
	for _, c := range commits {
		for _, login := range []string{c.GetAuthor().GetLogin(), c.GetCommitter().GetLogin()} {
			if heard[login] {
				continue
			}
			heard[login] = true
			if err := d.hear(ctx, fmt.Sprintf("commit %.7s", c.GetSHA()), login); err != nil {
				return err
			}
		}
	}
	return nil
}

// fork takes up that the head is in a fork, which anybody may make.
func (d *decision) fork(owner string) {
	head := fmt.Sprintf("the head of #%d", d.mission.Number)
	d.voices = append(d.voices, voice{What: head, Login: owner, Permission: "none"})
	d.outside(head + " is in a fork")
}

// own asks what a pull request of ours was made from: an agent that outsiders could steer writes what they want.
func (d *decision) own(ctx context.Context) error {
	made, err := d.engine.Store.MissionOfPull(ctx, d.mission.RepositoryID, d.mission.Number)
	if errors.Is(err, store.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	t, err := d.engine.savedTrust(ctx, made.Run)
	if errors.Is(err, store.ErrNone) {
		return nil
	}
	if err == nil && t.Tier == probe.Outsider {
		d.outside(fmt.Sprintf("#%d was made from a task for which this holds: %s", d.mission.Number, t.Because))
	}
	return err
}

// end is the decision. The policy may name a backend for colleagues; for outsiders whoever runs the bot does.
func (d *decision) end(s Settings) trust {
	t := trust{Tier: probe.Colleague, Backend: cmp.Or(d.policy.Backend, s.Backend), Voices: d.voices, Because: "all that is read and run is by people with write access"}
	if len(d.because) > 0 {
		t.Tier, t.Backend, t.Because = probe.Outsider, s.BackendOutsider, d.because[0]
		if more := len(d.because) - 1; more > 0 {
			t.Because += fmt.Sprintf(" (and %d more by others)", more)
		}
	}
	return t
}

func orNext(held *next) next {
	if held == nil {
		return next{}
	}
	return *held
}
