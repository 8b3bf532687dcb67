package mission

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/review"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// A merge queue asks for checks on a commit of its own, and waits for ever for a required one that nobody reports there
// (dcoapp/app#303).

// groupRef is how the branch of a merge group is named: by the pull request that it ends with.
var groupRef = regexp.MustCompile(`^refs/heads/gh-readonly-queue/.+/pr-([0-9]+)-[0-9a-f]{40}$`)

func (e *Engine) mergeGroup(ctx context.Context, c webhooks.MergeGroup) (string, error) {
	ref := groupRef.FindStringSubmatch(c.HeadRef)
	if ref == nil {
		return "ignored: not the branch of a merge queue: " + c.HeadRef, nil
	}
	number, err := strconv.Atoi(ref[1])
	if err != nil {
		return "ignored: " + c.HeadRef, nil
	}
	there, err := e.open(ctx, c.Repo.ID, number, store.KindGroup)
	if err != nil {
		return "", err
	}
	if c.Action == "destroyed" {
		if there == nil || there.Head != c.HeadSHA {
			return "ignored: nothing runs on this merge group", nil
		}
		return "mission " + there.ID + ": the merge group is gone", e.ask(ctx, there, wantGone, c.Sender.Login)
	}
	if there != nil && there.Head != c.HeadSHA { // the queue has made the group anew
		err := e.Store.Supersede(ctx, there.ID, c.HeadSHA, "", e.Now())
		e.interrupt(there.ID)
		return "mission " + there.ID + ": newer merge group " + c.HeadSHA, err
	}
	m := &store.Mission{
		Kind: store.KindGroup, InstallationID: c.InstallationID, RepositoryID: c.Repo.ID, Owner: c.Repo.Owner, Name: c.Repo.Name,
		Number: number, Title: fmt.Sprintf("merge group of #%d", number), Task: marshal(task{}), TriggerKey: "group:" + c.HeadSHA,
		Requester: c.Sender.Login, RequesterID: c.Sender.ID, TriggeredAt: e.Now(), Head: c.HeadSHA, Step: stepTake, Attempt: 1,
	}
	if err := e.insert(ctx, m); errors.Is(err, store.ErrOpen) {
		return "ignored: this merge group is known", nil
	} else if err != nil {
		return "", err
	}
	return "mission " + m.ID + " begun on merge group " + c.HeadSHA, nil
}

func (e *Engine) takeGroup(ctx context.Context, m *store.Mission) (next, error) {
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Read)
	if err != nil {
		return next{}, err
	}
	m.Base, m.Policy = "", ""
	if err := e.pinBase(ctx, gh, m); err != nil {
		return next{}, err
	}
	if _, err := e.readPolicy(ctx, gh, m); err != nil {
		return next{}, err
	}
	return next{step: stepQueue, found: fmt.Sprintf("mission %s, merge group %.7s", m.ID, m.Head)}, nil
}

func (e *Engine) createForGroup(ctx context.Context, m *store.Mission) (next, error) {
	if held, err := e.trusted(ctx, m, nil); held != nil || err != nil {
		return orNext(held), err
	}
	if err := e.ensureCommit(ctx, m, m.Head, "+"+m.Head+":refs/sandpiper/fetch/commits/"+m.Head); err != nil {
		return next{}, err
	}
	id, err := e.makeSandbox(ctx, m, m.Run, m.Head, "merge group", "")
	if err != nil {
		return next{}, err
	}
	if err := e.setup(ctx, m, id, m.Head); err != nil {
		return next{}, err
	}
	return next{step: stepVerify, found: e.describeSandbox(m, id)}, nil
}

func (e *Engine) verifyGroup(ctx context.Context, m *store.Mission) (next, error) {
	if err := e.groupGate(ctx, m); err != nil {
		return next{}, err
	}
	to, err := e.verifyPull(ctx, m)
	if to.step == stepArchive {
		to.step = stepClose // the queue makes another group, and never pushes to this one
	}
	return to, err
}

// groupGate repeats on a merge group where the review gate of its pull request stands, if that is one of the bot's.
func (e *Engine) groupGate(ctx context.Context, m *store.Mission) error {
	of, err := e.missionOfPull(ctx, m.RepositoryID, m.Number)
	if of == nil || err != nil {
		return err
	}
	read, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	pr, _, err := read.PullRequests.Get(ctx, m.Owner, m.Name, m.Number)
	if err != nil {
		return fmt.Errorf("pull request %d: %w", m.Number, err)
	}
	// By git, as everywhere: while the API shows another head, the gate is closed, and the queue makes another group.
	head, err := e.branchHead(ctx, of)
	if err != nil {
		return err
	}
	stands, err := e.gate.Stands(ctx, read, of, pr, head)
	if err != nil {
		return err
	}
	report, err := e.GitHub.Client(ctx, repoOf(m), installation.Checks)
	if err != nil {
		return err
	}
	r := checks.Result{Check: checks.Check{Name: review.Name, Run: "the review gate of the pull request"}, Conclusion: checks.Success, Summary: stands.Title, Completed: e.Now()}
	if !stands.Open { // it does not wait: nobody looks at the group again, and the queue makes another one
		r.Conclusion, r.Summary = checks.Failure, "the gate of the pull request is closed: "+stands.Title
	}
	_, err = e.Reporter.Complete(ctx, report, e.target(m), checkKey(m, r.Check), r)
	return err
}
