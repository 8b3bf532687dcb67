package mission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// A delivery that cannot be acted on is tried so often, about half an hour with the waits between; and where that is as weather is, for
// a day: after it nobody waits for the answer.
const (
	mostDeliveryTries = 14
	mostDeliveryAge   = 24 * time.Hour
)

// deliver acts on one stored delivery and records what became of it. It may be called again for the same delivery after
// a crash: what it starts is found by keys of our own.
func (e *Engine) deliver(ctx context.Context, d store.Delivery) {
	log := e.Log.With("delivery", d.ID, "event", d.Event, "action", d.Action)
	said, err := e.act(ctx, d.Delivery)
	if ctx.Err() != nil {
		return // shutting down: it is still due
	}
	now := e.Now()
	done := Handled{ID: d.ID, Event: d.Event, Outcome: said, Age: now.Sub(d.ReceivedAt)}
	defer func() { e.Watch.DeliveryDone(done) }()
	switch {
	case err == nil:
		log.Info("delivery handled", "outcome", said)
		err = e.Store.Handled(ctx, d.ID, said, now)
	case outcome.Class(err) == nil && (d.Attempts+1 < mostDeliveryTries || outcome.Passes(err) && done.Age < mostDeliveryAge):
		until := now.Add(retryAfter(err, d.Attempts))
		log.Warn("delivery will be tried again", "error", err, "at", until)
		done.Outcome = "later"
		err = e.Store.Postpone(ctx, d.ID, until)
	default:
		log.Error("delivery given up", "error", err)
		done.Outcome = "failed"
		err = e.Store.Handled(ctx, d.ID, "failed: "+err.Error(), now)
	}
	if err != nil {
		log.Error("delivery not recorded", "error", err)
	}
}

func retryAfter(err error, attempts int) time.Duration {
	var limited *installation.ErrLimited
	if errors.As(err, &limited) {
		return max(limited.RetryAfter, time.Second)
	}
	return outcome.Wait(attempts)
}

// act decodes a delivery and handles the commands in it, one issue at a time.
func (e *Engine) act(ctx context.Context, d webhooks.Delivery) (outcome string, err error) {
	commands, err := webhooks.Decode(d, webhooks.Self{Slug: e.Slug, AppID: e.AppID})
	if err != nil {
		return "undecodable: " + err.Error(), nil // it will not get better
	}
	for _, c := range commands {
		key, do := e.handler(c)
		if do == nil {
			outcome = reasonOf(c)
			continue
		}
		err := e.inLane(key, func() error {
			said, err := do(ctx)
			outcome = said
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return outcome, nil
}

func reasonOf(c webhooks.Command) string {
	if ignored, ok := c.(webhooks.Ignored); ok {
		return "ignored: " + ignored.Reason
	}
	return fmt.Sprintf("ignored: nothing follows from %T", c)
}

// handler gives what is to be done for a command, and the issue that it is about; nil where nothing follows from it.
func (e *Engine) handler(c webhooks.Command) (lane string, do func(context.Context) (string, error)) {
	repo := c.Origin().Repo.ID
	about := func(number int) string { return fmt.Sprintf("%d#%d", repo, number) }
	switch c := c.(type) {
	case webhooks.LabelAdded:
		return about(c.Number), func(ctx context.Context) (string, error) { return e.labelled(ctx, c) }
	case webhooks.Slash:
		return about(c.Number), func(ctx context.Context) (string, error) { return e.slash(ctx, c) }
	case webhooks.PullRequestChanged:
		return about(c.Number), func(ctx context.Context) (string, error) { return e.pullChanged(ctx, c) }
	case webhooks.IssueChanged:
		return about(c.Number), func(ctx context.Context) (string, error) { return e.issueChanged(ctx, c) }
	case webhooks.CheckRerun:
		return "sha:" + c.HeadSHA, func(ctx context.Context) (string, error) {
			return e.rerun(ctx, c.Meta, c.AppID, c.HeadSHA, c.Name)
		}
	case webhooks.CheckAction:
		return "sha:" + c.HeadSHA, func(ctx context.Context) (string, error) { return e.pressed(ctx, c) }
	case webhooks.MergeGroup:
		return "sha:" + c.HeadSHA, func(ctx context.Context) (string, error) { return e.mergeGroup(ctx, c) }
	case webhooks.SuiteRerun:
		return "sha:" + c.HeadSHA, func(ctx context.Context) (string, error) { return e.rerun(ctx, c.Meta, c.AppID, c.HeadSHA, "") }
	case webhooks.ReviewSubmitted:
		return about(c.Number), func(ctx context.Context) (string, error) { return e.reviewSubmitted(ctx, c) }
	case webhooks.InstallationChanged:
		return fmt.Sprintf("installation:%d", c.InstallationID), func(ctx context.Context) (string, error) { return e.installationChanged(ctx, c) }
	}
	return "", nil
}

// pullChanged follows a pull request: its end ends the mission; a new head has its checks run again.
func (e *Engine) pullChanged(ctx context.Context, c webhooks.PullRequestChanged) (string, error) {
	switch c.Action {
	case "closed":
		return e.pullClosed(ctx, c)
	case "edited": // also by ourselves, at the end of each round
		if !c.BaseChanged {
			return "ignored: the pull request is for the same base", nil
		}
		if m, err := e.missionOfPull(ctx, c.Repo.ID, c.Number); m != nil || err != nil {
			if err == nil {
				err = e.gate.Set(ctx, m, false)
			}
			return "the review gate of the pull request", err
		}
	case "synchronize", "reopened":
		if m, err := e.missionOfPull(ctx, c.Repo.ID, c.Number); m != nil || err != nil {
			if err == nil {
				err = errors.Join(e.gate.Set(ctx, m, false), e.watchBranch(ctx, m)) // a new head has no approvals, and may be somebody else's
			}
			return "the review gate of the pull request", err
		}
		m, err := e.open(ctx, c.Repo.ID, c.Number, store.KindChecks)
		if err == nil && c.Action == "reopened" {
			switch {
			case m == nil:
				return e.reopened(ctx, c)
			case m.Want == wantEnd || m.Step == stepClose:
				return "", outcome.Passing("its mission is ending still") // the delivery is looked at again
			}
		}
		if m == nil || err != nil {
			return "ignored: no checks mission on this pull request", err
		}
		if m.Head == c.HeadSHA {
			return "ignored: this head is being checked", nil
		}
		if err := e.Store.Supersede(ctx, m.ID, c.HeadSHA, "", e.Now()); err != nil {
			return "", err
		}
		e.interrupt(m.ID)
		return "mission " + m.ID + ": newer head " + c.HeadSHA, nil
	}
	return "ignored: nothing follows from a pull request " + c.Action, nil
}

func (e *Engine) pullClosed(ctx context.Context, c webhooks.PullRequestChanged) (string, error) {
	checks, err := e.open(ctx, c.Repo.ID, c.Number, store.KindChecks)
	if err != nil {
		return "", err
	}
	work, err := e.open(ctx, c.Repo.ID, c.Number, store.KindIssue)
	want := wantCancel // of what is at work on top of it
	if err == nil && (work == nil || work.Pull != 0) {
		work, err = e.missionOfPull(ctx, c.Repo.ID, c.Number)
		if want = wantEnd; c.Merged {
			want = wantMerged
		}
		if c.Sender.Login == e.login() {
			work = nil // it is being discarded, by which its pull request was closed
		}
	}
	if err != nil || checks == nil && work == nil {
		return "ignored: no mission has this pull request", err
	}
	if !c.Merged { // which is for ever
		if again, err := e.openAgain(ctx, c.Meta, c.Number, c.UpdatedAt); again || err != nil {
			return "ignored: the pull request is open again", err
		}
	}
	var said []string
	for _, m := range []*store.Mission{checks, work} {
		if m == nil {
			continue
		}
		as := want
		if m == checks {
			as = wantEnd
		}
		if err := e.ask(ctx, m, as, c.Sender.Login); err != nil {
			return "", err
		}
		said = append(said, "mission "+m.ID)
	}
	return strings.Join(said, ", ") + ": the pull request is closed", nil
}

// issueChanged ends the work on an issue that is closed, deleted or moved away. A mission whose pull request waits for a
// review goes on: merging it is what closes the issue.
func (e *Engine) issueChanged(ctx context.Context, c webhooks.IssueChanged) (string, error) {
	if c.Action != "closed" && c.Action != "deleted" && c.Action != "transferred" {
		return "ignored: nothing follows from an issue " + c.Action, nil
	}
	m, err := e.open(ctx, c.Repo.ID, c.Number, store.KindIssue)
	if m == nil || err != nil {
		return "ignored: no open mission on this issue", err
	}
	if m.Pull > 0 && c.Action == "closed" {
		return "ignored: the pull request decides", nil
	}
	want := wantGone
	if c.Action == "closed" {
		want = wantCancel
		if again, err := e.openAgain(ctx, c.Meta, c.Number, c.UpdatedAt); again || err != nil {
			return "ignored: the issue is open again", err
		}
	}
	return "mission " + m.ID + ": the issue is " + c.Action, e.ask(ctx, m, want, c.Sender.Login)
}

// installationChanged ends the missions that the App has lost its access for, or says what it could not say without.
func (e *Engine) installationChanged(ctx context.Context, c webhooks.InstallationChanged) (string, error) {
	e.GitHub.Forget(c.InstallationID) // what it may do, and whether it is suspended, is read anew
	var lost []*store.Mission
	if c.Action == "deleted" || c.Action == "suspend" {
		all, err := e.Store.OpenOfInstallation(ctx, c.InstallationID, 0)
		if err != nil {
			return "", err
		}
		lost = all
	}
	for _, r := range c.Removed {
		some, err := e.Store.OpenOfInstallation(ctx, c.InstallationID, r.ID)
		if err != nil {
			return "", err
		}
		lost = append(lost, some...)
	}
	ended := 0
	for _, m := range lost {
		if c.Action != "deleted" { // that is for ever; the rest may be told late, and undone meanwhile
			if reached, err := e.reached(ctx, m); err != nil {
				return "", err
			} else if reached {
				continue
			}
		}
		if err := e.ask(ctx, m, wantGone, c.Sender.Login); err != nil && !errors.Is(err, store.ErrNone) {
			return "", err
		}
		ended++
	}
	if c.Action != "deleted" && c.Action != "suspend" && c.Action != "removed" {
		return "the App's access is read anew", e.catchUp(ctx, c)
	}
	return fmt.Sprintf("%d missions ended with the App's access", ended), nil
}

// rerun runs the checks of a head again, all or one by name. GitHub offers the button to people with write access only,
// but a delivery is a hint: whoever pressed it is looked up.
func (e *Engine) rerun(ctx context.Context, meta webhooks.Meta, app int64, head, only string) (string, error) {
	if app != e.AppID {
		return "ignored: a check of another App", nil
	}
	repo := repoOfMeta(meta)
	gh, err := e.GitHub.Client(ctx, repo, installation.Read)
	if err != nil {
		return "", err
	}
	if who, err := standing.Of(ctx, gh, repo, meta.Sender.Login); err != nil || !who.MayWrite() {
		return "refused: " + meta.Sender.Login + " may not write here", err
	}
	// Not from the event: its list of pull requests is empty for forks (nearform/lastlight#283).
	pulls, _, err := gh.PullRequests.ListPullRequestsWithCommit(ctx, repo.Owner, repo.Name, head, nil)
	if err != nil {
		return "", fmt.Errorf("pull requests of %s: %w", head, err)
	}
	for _, pr := range pulls {
		if pr.GetState() != "open" || pr.GetHead().GetSHA() != head {
			continue
		}
		return e.checkPull(ctx, pullTrigger{
			meta: meta, repo: repo, number: pr.GetNumber(), title: pr.GetTitle(), head: head, only: only,
			key: "delivery:" + meta.DeliveryID, by: meta.Sender,
		})
	}
	return "ignored: no open pull request has this head", nil
}

// open reads the open mission of an issue or pull request; nil when there is none.
func (e *Engine) open(ctx context.Context, repository int64, number int, kind store.Kind) (*store.Mission, error) {
	m, err := e.Store.LastMission(ctx, repository, number, kind)
	if errors.Is(err, store.ErrNone) || err == nil && m.Ended() {
		return nil, nil
	}
	return m, err
}

// ask records a wish and has the mission look at it now.
func (e *Engine) ask(ctx context.Context, m *store.Mission, want, by string) error {
	if err := e.Store.Want(ctx, m.ID, want, by, e.Now()); err != nil {
		return err
	}
	e.Audit(ctx, audit.Entry{Kind: "wish", Mission: m.ID, Run: m.Run, Repository: m.Owner + "/" + m.Name, Actor: by, Data: map[string]any{"want": want, "step": m.Step}})
	e.interrupt(m.ID)
	return nil
}
