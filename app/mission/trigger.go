package mission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/say"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// task is the text of an issue as of the trigger; it waits in the mission until the agent is given it.
type task struct {
	Title  string `json:"title"`
	Body   string `json:"body"`
	Author string `json:"author"`
	Label  string `json:"label,omitempty"`  // that started it
	Role   string `json:"role,omitempty"`   // of the requester, as it was then
	May    string `json:"may,omitempty"`    // what that allows: admin, write
	Onto   string `json:"onto,omitempty"`   // the branch of a person's pull request, which the result is for; see stack
	Fork   bool   `json:"fork,omitempty"`   // the pull request is from a fork: the result is suggested on it
	Update bool   `json:"update,omitempty"` // the present round starts from the newest commit of the base branch

	Style promote.Style `json:"style,omitzero"` // of titles, as the repository's rules want it
}

// labelled starts a mission when the trigger label was put on an issue or pull request.
func (e *Engine) labelled(ctx context.Context, c webhooks.LabelAdded) (string, error) {
	if c.Sender.Login == e.login() {
		return "ignored: our own label", nil
	}
	t := trigger{
		meta: c.Meta, issue: c.Issue, by: c.Sender, key: "delivery:" + c.DeliveryID, label: c.Label, at: c.UpdatedAt,
		repo: repoOfMeta(c.Meta),
	}
	triggers, err := e.triggers(ctx, t)
	if err != nil {
		return "", err
	}
	if !triggers {
		return "ignored: label " + c.Label, nil
	}
	return e.start(ctx, t)
}

// triggers says whether a label is the one of the settings, or one that the policy of the default branch names. The reads
// are conditional, and cost nothing of GitHub's limit while nothing has changed.
func (e *Engine) triggers(ctx context.Context, t trigger) (bool, error) {
	if strings.EqualFold(t.label, e.Label) {
		return true, nil
	}
	gh, err := e.GitHub.Client(ctx, t.repo, installation.Read)
	if err != nil {
		return false, err
	}
	branch := t.meta.Repo.DefaultBranch
	ref, _, err := gh.Git.GetRef(ctx, t.repo.Owner, t.repo.Name, "heads/"+branch)
	if outcome.Class(err) != nil {
		return false, nil // no such branch, or no access: then this label means nothing to us
	}
	if err != nil {
		return false, fmt.Errorf("branch %s: %w", branch, err)
	}
	p, _, err := policy.Load(ctx, gh, t.repo.Owner, t.repo.Name, ref.GetObject().GetSHA())
	if outcome.Class(err) != nil || errors.As(err, new(*policy.Invalid)) {
		return false, nil // whoever uses the label of the settings is told what is wrong with the file
	}
	if err != nil {
		return false, fmt.Errorf("policy: %w", err)
	}
	return p.Triggers.Match(t.label), nil
}

// trigger is a wish to start a mission.
type trigger struct {
	meta        webhooks.Meta
	repo        installation.Repo
	issue       webhooks.Issue
	by          webhooks.User
	key         string
	label       string // "" for a slash command
	instruction string
	at          time.Time
	onto        string // the branch of a person's pull request; "" for the default branch
	fork        bool   // the pull request is from a fork
	role, may   string // of the person; set by start
}

// sameMoment is how far apart the label of one who may and the refusal of one who may not can be: an automation and a person put it on at
// once (handarbeit/fabrik#1254). The clocks are GitHub's and ours.
const sameMoment = 10 * time.Second

// start decides on a trigger and begins a mission, or refuses, visibly and once.
func (e *Engine) start(ctx context.Context, t trigger) (string, error) {
	if m, err := e.open(ctx, t.repo.ID, t.issue.Number, kindOf(t.issue)); err != nil {
		return "", err
	} else if m != nil && m.TriggerKey == t.key {
		return "mission " + m.ID + " has begun", nil // this delivery, handled before a crash
	}
	gh, err := e.GitHub.Client(ctx, t.repo, installation.Issues)
	if err != nil {
		return "", err
	}
	now, _, err := gh.Issues.Get(ctx, t.repo.Owner, t.repo.Name, t.issue.Number)
	if err != nil {
		return "", fmt.Errorf("issue %d: %w", t.issue.Number, err)
	}
	if t.label != "" && !hasLabel(now, t.label) {
		if refused, err := e.Store.EffectsSince(ctx, say.RefusalsIn(t.repo, t.issue.Number), t.at.Add(-sameMoment)); refused == 0 || err != nil {
			return "ignored: the label has been taken off already", err
		} // else by us, from somebody who put it on in the same moment and may not
	}
	who, err := standing.Of(ctx, gh, t.repo, t.by.Login)
	if err != nil {
		return "", err
	}
	t.role, t.may = who.Word(), who.Permission
	if !who.MayWrite() {
		return e.refuse(ctx, gh, t, "permission", "Only people with write access start missions here, and @"+t.by.Login+" has "+who.Word()+" access.")
	}
	if now.GetState() != "open" {
		return e.refuse(ctx, gh, t, "closed", "This is closed. Open it again first.")
	}
	if now.IsPullRequest() {
		return e.startChecks(ctx, gh, t)
	}
	return e.begin(ctx, gh, t)
}

func (e *Engine) begin(ctx context.Context, gh *github.Client, t trigger) (string, error) {
	text, err := json.Marshal(task{Title: t.issue.Title, Body: t.issue.Body, Author: t.issue.Author.Login, Label: t.label, Role: t.role, May: t.may, Onto: t.onto, Fork: t.fork})
	if err != nil {
		return "", err
	}
	m := &store.Mission{
		Kind: store.KindIssue, InstallationID: t.repo.InstallationID, RepositoryID: t.repo.ID, Owner: t.repo.Owner, Name: t.repo.Name,
		Number: t.issue.Number, Title: t.issue.Title, Task: string(text), TriggerKey: t.key, Requester: t.by.Login, RequesterID: t.by.ID,
		Instruction: t.instruction, TriggeredAt: t.at, Step: stepTake, Attempt: 1,
	}
	err = e.insert(ctx, m)
	if !errors.Is(err, store.ErrOpen) {
		return "mission " + m.ID + " begun", err
	}
	there, err := e.open(ctx, t.repo.ID, t.issue.Number, store.KindIssue)
	if err != nil || there == nil {
		return "ignored: this trigger has started a mission before", err
	}
	if there.Step == stepWaiting {
		return e.refuse(ctx, gh, t, "open:"+there.ID, "Mission "+there.ID+" "+whatWaits(there)+" Merge or close it, or say `/sandpiper discard`, then start again.")
	}
	if t.label == "" { // a command may hold words that the agent has not been given
		return e.refuse(ctx, gh, t, "busy:"+there.ID, "Mission "+there.ID+" is at it already. `/sandpiper cancel` stops it; once it has ended, start again.")
	}
	// Two people, or one person and a retry of GitHub: one mission serves them both.
	return "ignored: mission " + there.ID + " is at it", e.unlabel(ctx, gh, t)
}

// insert gives a mission its id and stores it.
func (e *Engine) insert(ctx context.Context, m *store.Mission) error {
	m.CreatedAt, m.UpdatedAt, m.DueAt = e.Now(), e.Now(), e.Now()
	for {
		m.ID = store.NewID()
		m.Run = runID(m)
		err := e.Store.Begin(ctx, m)
		if errors.Is(err, store.ErrID) {
			continue
		}
		if err == nil {
			e.Audit(ctx, audit.Entry{Kind: "mission.begun", Mission: m.ID, Run: m.Run, Repository: m.Owner + "/" + m.Name, Actor: m.Requester,
				Data: map[string]any{"kind": m.Kind, "number": m.Number, "trigger": m.TriggerKey}})
		}
		return err
	}
}

func runID(m *store.Mission) string { return store.RunID(m.ID, m.Attempt) }

// refuse says once, where the person looks, why nothing is done. The label goes, so that it can be put on again.
func (e *Engine) refuse(ctx context.Context, gh *github.Client, t trigger, class, sentence string) (string, error) {
	if err := e.say.Refuse(ctx, gh, t.repo, t.issue.Number, t.by.Login, class, "Not started: "+sentence); err != nil {
		return "", err
	}
	e.Audit(ctx, audit.Entry{Kind: "refusal", Repository: t.repo.Owner + "/" + t.repo.Name, Actor: t.by.Login,
		Data: map[string]any{"number": t.issue.Number, "class": class, "why": sentence}})
	return "refused: " + sentence, e.unlabel(ctx, gh, t)
}

func (e *Engine) unlabel(ctx context.Context, gh *github.Client, t trigger) error {
	if t.label == "" {
		return nil
	}
	return removeLabel(ctx, gh, t.repo, t.issue.Number, t.label)
}

func removeLabel(ctx context.Context, gh *github.Client, repo installation.Repo, number int, label string) error {
	// go-github puts the name into the path as it is, where GitHub would read "needs agent?" as "needs agent".
	response, err := gh.Issues.RemoveLabelForIssue(ctx, repo.Owner, repo.Name, number, url.PathEscape(label))
	if response != nil && response.StatusCode == http.StatusNotFound {
		return nil // somebody was quicker
	}
	if err != nil {
		return fmt.Errorf("label %s of %d: %w", label, number, err)
	}
	return nil
}

func hasLabel(issue *github.Issue, name string) bool {
	for _, l := range issue.Labels {
		if strings.EqualFold(l.GetName(), name) {
			return true
		}
	}
	return false
}

func kindOf(i webhooks.Issue) store.Kind {
	if i.IsPR {
		return store.KindChecks
	}
	return store.KindIssue
}
