package mission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// offer is what of a run would be, or was, promoted. It is staged before the checks, so that they run on exactly that, and
// staged anew when a person selects something else of the same run.
type offer struct {
	promote.Staged
	N     int            `json:"n"`               // how often the run was staged; names the sandbox of its checks
	By    string         `json:"by,omitempty"`    // who selected; empty: nobody did
	API   bool           `json:"api,omitempty"`   // its commit is made by GitHub's API
	Said  string         `json:"said,omitempty"`  // by the agent, at its end
	Agent string         `json:"agent,omitempty"` // its version, as it says itself
	Style promote.Style  `json:"style,omitzero"`  // of its title, as the repository's history has it
	Gates []gates.Result `json:"gates,omitempty"`
}

// whole says whether it is everything that the run changed, on the commit that the run started from.
func (o offer) whole() bool { return len(o.LeftOut) == 0 && !o.Merged() }

func offerOf(run *store.Run) (o offer, err error) {
	if run.Offer != "" {
		err = json.Unmarshal([]byte(run.Offer), &o)
	}
	if err != nil {
		return o, fmt.Errorf("offer of %s: %w", run.ID, err)
	}
	o.N = max(o.N, 1)
	return o, nil
}

// stage finds or makes what the run offers. It is recorded before anything looks at it.
func (e *Engine) stage(ctx context.Context, m *store.Mission, run *store.Run) (offer, error) {
	o, err := offerOf(run)
	if err != nil || o.Commit != "" {
		return o, err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Read)
	if err != nil {
		return o, err
	}
	bot, err := e.bot(ctx, gh)
	if err != nil {
		return o, err
	}
	p, err := policyOf(m)
	if err != nil {
		return o, err
	}
	r := commitRequest(m, run, bot, p)
	if r.Selection = o.Selection; o.By == "" {
		r.Selection.Drop = p.Promote.Drop
	}
	if o.Said == "" {
		outcome, err := e.agentOutcome(m, run)
		if err != nil {
			return o, err
		}
		o.Said, o.Agent = outcome.Summary, outcome.Version
	}
	if isFork(m) { // no commit of it goes anywhere
		r.Style = promote.Style{Pattern: "{title}"}
	} else if o.API, err = e.transport(ctx, gh, m, p, r); err != nil {
		return o, err
	}
	stored := promote.Stored{Stores: e.Git, Remote: e.remote(m, installation.Read)}
	if r.Style == (promote.Style{}) {
		if o.Style, err = e.styleOf(ctx, stored, m, run); err != nil {
			return o, err
		}
		r.Style = o.Style
	}
	if o.Staged, err = promote.Stage(ctx, e.Sandboxes, stored, e.Redact, r); err != nil {
		return o, fmt.Errorf("stage %s: %w", m.Run, err)
	}
	if err := e.askGates(ctx, m, stored, &o); err != nil {
		return o, fmt.Errorf("gates of %s: %w", m.Run, err)
	}
	run.Offer = marshal(o)
	return o, e.Store.SaveRun(ctx, run)
}

// styleOf is how the repository words titles, where neither the policy nor a ruleset says it.
func (e *Engine) styleOf(ctx context.Context, stored promote.Stored, m *store.Mission, run *store.Run) (promote.Style, error) {
	var changes []sandbox.Change
	if err := json.Unmarshal([]byte(run.Changes), &changes); err != nil {
		return promote.Style{}, fmt.Errorf("changes of %s: %w", run.ID, err)
	}
	return stored.StyleOf(ctx, run.Base, m.Title, changes)
}

// commitRequest is what the commit of a promotion is made of.
func commitRequest(m *store.Mission, run *store.Run, bot promote.Person, p *policy.Policy) promote.Request {
	r := promote.Request{
		Run: sandbox.ID(m.Run), Mission: m.ID, Owner: m.Owner, Repo: m.Name, RepoID: m.RepositoryID, Base: m.BaseBranch,
		Issue: m.Number, Title: m.Title, Instruction: m.Instruction, Requester: promote.Person{Login: m.Requester, ID: m.RequesterID},
		Bot: bot, When: run.CreatedAt.Truncate(time.Second), Agent: run.Agent, Style: taskOf(m).Style, Signoff: p.Promote.Signoff,
		Keep: p.Promote.Commits == "keep",
	}
	if p.Promote.Title != "" {
		r.Style = promote.Style{Pattern: p.Promote.Title}
	}
	if isFollowUp(m, run) {
		r.FollowUp = &promote.FollowUp{Round: run.Attempt, Head: run.Base}
	}
	if isUpdate(m) {
		r.Onto = m.Head
	}
	t := taskOf(m)
	r.Text, r.Stacked, r.Suggest = t.Body, t.Onto != "", t.Fork
	return r
}

// checksSandbox is the fresh sandbox that the checks of what is offered get.
func checksSandbox(run string, o offer) sandbox.ID {
	if o.N > 1 {
		return sandbox.ID(fmt.Sprintf("%s-checks-%d", run, o.N))
	}
	return sandbox.ID(run + "-checks")
}

// wantSelect begins a wish for another selection; the selection follows as JSON.
const wantSelect = "select "

// reselect has the run staged and checked once more, with what a person selected.
func (e *Engine) reselect(ctx context.Context, m *store.Mission) (next, error) {
	var sel sandbox.Selection
	if err := json.Unmarshal([]byte(strings.TrimPrefix(m.Want, wantSelect)), &sel); err != nil {
		return next{}, fmt.Errorf("selection of mission %s: %w", m.ID, err)
	}
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return next{}, err
	}
	was, err := offerOf(run)
	if err != nil {
		return next{}, err
	}
	if run.Changes != "" {
		if refused, err := e.refuseSelection(ctx, m, sel, was.N); refused || err != nil {
			return next{step: m.Step}, err
		}
	}
	for _, id := range []sandbox.ID{checksSandbox(m.Run, was), baseSandbox(checksSandbox(m.Run, was))} {
		if _, err := e.Sandboxes.Discard(ctx, id); err != nil && !errors.Is(err, sandbox.ErrUnknown) {
			return next{}, err
		}
	}
	run.Offer, run.Checks = marshal(offer{Staged: promote.Staged{Selection: sel}, N: was.N + 1, By: m.WantBy, Said: was.Said, Agent: was.Agent}), ""
	if err := e.Store.SaveRun(ctx, run); err != nil {
		return next{}, err
	}
	m.Outcome, m.Message = "", ""
	if m.Step != stepExecute && m.Step != stepInspect {
		m.Step = stepVerify
	}
	if err := e.Store.Save(ctx, m, e.Now()); err != nil {
		return next{}, err
	}
	return next{step: m.Step}, e.Store.Wanted(ctx, m.ID)
}

// refuseSelection says so when a selection names what is not there, and leaves everything as it is. Only the host that has the
// store can know.
func (e *Engine) refuseSelection(ctx context.Context, m *store.Mission, sel sandbox.Selection, n int) (bool, error) {
	err := e.Sandboxes.Selectable(ctx, sandbox.ID(m.Run), sel)
	var wrong *sandbox.ErrSelection
	why := ""
	switch {
	case errors.As(err, &wrong):
		why = quote.Cell(wrong.Entry) + " cannot be selected: " + wrong.Reason + "."
	case errors.Is(err, sandbox.ErrNothing):
		why = "Nothing that the run changed would be left."
	default:
		return false, err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return true, err
	}
	key := fmt.Sprintf("select:%s:%d:%s", m.Run, n, m.Want)
	if err := e.say.Once(ctx, gh, repoOf(m), m.Number, key, why+" All stays as it is. "+selectHelp); err != nil {
		return true, err
	}
	return true, e.Store.Wanted(ctx, m.ID)
}
