package mission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/say"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

const helpText = `One command a line, by people with write access:

| command | what it does |
| --- | --- |
| ` + "`/sandpiper run [words]`" + ` | starts a mission on this issue, or the checks on this pull request; the words are given to the agent |
| ` + "`/sandpiper status`" + ` | says where the mission is |
| ` + "`/sandpiper cancel`" + ` | stops it; what the agent made is kept in the bot's store |
| ` + "`/sandpiper retry`" + ` | starts again from the current base |
| ` + "`/sandpiper promote only PATH…`" + ` | takes these paths of what the agent made, and nothing else; ` + "`promote all`" + ` takes everything again |
| ` + "`/sandpiper drop PATH…`" + ` | leaves paths out; what is left out is listed in the pull request and kept |
| ` + "`/sandpiper approve COMMIT`" + ` | approves exactly this head of the pull request, for teams without reviews |
| ` + "`/sandpiper allow GATE…`" + ` | lets what a gate found pass, for exactly this change |
| ` + "`/sandpiper fix [words]`, `continue`" + ` | sends it on: another round on its pull request, with the review threads, the failed checks and the words; also on top of what others have pushed. On a pull request of a person's own: a pull request onto it, or suggestions if it is from a fork |
| ` + "`/sandpiper update [words]`" + ` | the same, from the newest commit of the base branch: the agent is given both sides of what conflicts, and its result is pushed as a merge |
| ` + "`/sandpiper discard`" + ` | ends it and removes the sandbox; an open pull request of it is closed |
| ` + "`/sandpiper help`" + ` | shows this |`

// slash obeys one command line of a comment.
func (e *Engine) slash(ctx context.Context, c webhooks.Slash) (string, error) {
	repo := repoOfMeta(c.Meta)
	gh, err := e.GitHub.Client(ctx, repo, installation.Issues)
	if err != nil {
		return "", err
	}
	who, err := standing.Of(ctx, gh, repo, c.Author.Login)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("comment:%d:%d", c.CommentID, c.Line)
	if !who.MayWrite() {
		return "refused: no write access", e.say.Refuse(ctx, gh, repo, c.Number, c.Author.Login, "permission",
			"Only people with write access command the bot here, and @"+c.Author.Login+" has "+who.Word()+" access. Ask one of them to say it.")
	}
	if gone, err := e.takenBack(ctx, gh, c); gone || err != nil {
		return "ignored: the comment has been deleted", err
	}
	muted, err := e.say.Mute(ctx, gh, repo, c.Number, key)
	if err != nil {
		return "", err
	}
	if muted && c.Verb != "cancel" && c.Verb != "discard" { // a person can stop the bot at any time
		return "ignored: too many commands here", nil
	}
	answer := func(text string) (string, error) {
		if muted {
			return text + " (not said: too many commands here)", nil
		}
		return text, e.say.Once(ctx, gh, repo, c.Number, say.RepliesIn(repo, c.Number)+key, text)
	}
	m, err := e.missionAt(ctx, repo.ID, c)
	if err != nil {
		return "", err
	}
	t := trigger{meta: c.Meta, repo: repo, issue: c.Issue, by: c.Author, key: key, instruction: c.Args, at: c.At, role: who.Word()}
	switch late := toldLate(m, c); {
	case late != "":
		return answer(late)
	case c.Verb == "run":
		return e.start(ctx, t)
	case c.Verb == "help":
		return answer(helpText)
	case verbs[c.Verb] == nil:
		return e.unknown(ctx, gh, repo, c, key)
	}
	text, err := e.command(ctx, gh, m, c, t)
	if err != nil {
		return "", err
	}
	return answer(text)
}

// command obeys one of the verbs. m is nil where there is no mission.
func (e *Engine) command(ctx context.Context, gh *github.Client, m *store.Mission, c webhooks.Slash, t trigger) (said string, err error) {
	if c.IsPR && (m == nil || m.Kind == store.KindChecks || m.Ended() && onPull(m)) && (c.Verb == "fix" || c.Verb == "continue" || c.Verb == "update") {
		return e.stack(ctx, gh, t)
	}
	if m == nil {
		return "There is no mission here yet. Put the label `" + e.Label + "` on, or say `/sandpiper run`.", nil
	}
	return verbs[c.Verb](e, ctx, gh, m, c)
}

// mostUnknown is how often a person is told in an hour which commands there are: who has seen it twice reads it there.
const mostUnknown = 2

// unknown answers a command that there is not, and then is quiet to who goes on with such: it may be a script.
func (e *Engine) unknown(ctx context.Context, gh *github.Client, repo installation.Repo, c webhooks.Slash, key string) (string, error) {
	told := fmt.Sprintf("unknown:%d:%s:", repo.ID, strings.ToLower(c.Author.Login))
	_, answered, err := e.Store.Effect(ctx, told+key)
	if answered || err != nil {
		return "no such command", err
	}
	n, err := e.Store.EffectsSince(ctx, told, e.Now().Add(-say.ReplyWindow))
	if err != nil {
		return "", err
	}
	if n >= mostUnknown {
		return "no such command (not said: told already)", nil
	}
	text := "There is no command `" + strings.ReplaceAll(c.Verb, "`", "") + "`.\n\n" + helpText
	if n == mostUnknown-1 {
		text += "\n\n@" + c.Author.Login + ": for an hour I do not answer commands of yours that I do not know. Those above I obey."
	}
	return "no such command", e.say.Once(ctx, gh, repo, c.Number, told+key, text)
}

// missionAt is the mission that a comment is about: on a pull request of ours that is the one which opened it; nil when there
// is none.
func (e *Engine) missionAt(ctx context.Context, repository int64, c webhooks.Slash) (*store.Mission, error) {
	if m, err := e.missionOfPull(ctx, repository, c.Number); m != nil || err != nil {
		return m, err
	}
	if c.IsPR { // one that works on top of a person's pull request
		if m, err := e.open(ctx, repository, c.Number, store.KindIssue); m != nil || err != nil {
			return m, err
		}
	}
	m, err := e.Store.LastMission(ctx, repository, c.Number, kindOf(c.Issue))
	if c.IsPR && errors.Is(err, store.ErrNone) {
		m, err = e.Store.MissionOfPull(ctx, repository, c.Number) // one that has ended
	}
	if c.IsPR && errors.Is(err, store.ErrNone) {
		m, err = e.Store.LastMission(ctx, repository, c.Number, store.KindIssue)
	}
	if errors.Is(err, store.ErrNone) {
		return nil, nil
	}
	return m, err
}

// verbs are the commands about a mission that exists. Each says what the person is told, and may be called again.
var verbs = map[string]func(*Engine, context.Context, *github.Client, *store.Mission, webhooks.Slash) (string, error){
	"status":   (*Engine).sayStatus,
	"cancel":   (*Engine).cancel,
	"retry":    (*Engine).retry,
	"discard":  (*Engine).discard,
	"fix":      (*Engine).fix,
	"continue": (*Engine).fix,
	"update":   (*Engine).fix,
	"approve":  (*Engine).approve,
	"allow":    (*Engine).allow,
	"promote":  (*Engine).selection,
	"drop":     (*Engine).selection,
}

func (e *Engine) sayStatus(ctx context.Context, _ *github.Client, m *store.Mission, _ webhooks.Slash) (string, error) {
	return e.statusText(ctx, m), nil
}

func (e *Engine) cancel(ctx context.Context, _ *github.Client, m *store.Mission, c webhooks.Slash) (string, error) {
	switch {
	case m.Ended():
		return overAlready(m), nil
	case m.Step == stepWaiting && m.Kind == store.KindIssue:
		return "Mission " + m.ID + " has nothing running: it " + whatWaits(m) + " `/sandpiper discard` ends it.", nil
	}
	return "Mission " + m.ID + " is being cancelled.", e.ask(ctx, m, wantCancel, c.Author.Login)
}

func (e *Engine) discard(ctx context.Context, _ *github.Client, m *store.Mission, c webhooks.Slash) (string, error) {
	if m.Ended() {
		return overAlready(m), nil
	}
	return "Mission " + m.ID + " is being discarded.", e.ask(ctx, m, wantDiscard, c.Author.Login)
}

// overAlready answers who asks something of a mission that has ended.
func overAlready(m *store.Mission) string {
	again := outcome.Cancelled.Next()
	if onPull(m) {
		again = outcome.Cancelled.NextOnPull()
	}
	return "Mission " + m.ID + " has ended already (" + m.Outcome + "). " + again
}

// retry begins the next attempt. An attempt whose pull request waits for people is not thrown away by it.
func (e *Engine) retry(ctx context.Context, gh *github.Client, m *store.Mission, c webhooks.Slash) (string, error) {
	switch {
	case m.Kind == store.KindChecks && !m.Ended():
		pr, _, err := gh.PullRequests.Get(ctx, m.Owner, m.Name, m.Number)
		if err != nil {
			return "", fmt.Errorf("pull request %d: %w", m.Number, err)
		}
		if err := e.Store.Supersede(ctx, m.ID, pr.GetHead().GetSHA(), "", e.Now()); err != nil {
			return "", err
		}
		e.interrupt(m.ID)
		return "The checks run again.", nil
	case m.Step == stepWaiting:
		return "Mission " + m.ID + " " + whatWaits(m) + " Close it or say `/sandpiper discard` first; then `/sandpiper run` starts anew.", nil
	case !m.Ended():
		return "Mission " + m.ID + " is at work (" + wordsFor(m) + "). `/sandpiper cancel` stops it first.", nil
	}
	issue, err := e.issueOf(ctx, gh, m, c.Issue)
	if err != nil {
		return "", err
	}
	t := trigger{
		meta: c.Meta, repo: repoOf(m), issue: issue, by: c.Author,
		key: fmt.Sprintf("comment:%d:%d", c.CommentID, c.Line), instruction: cmp.Or(c.Args, m.Instruction), at: c.At,
	}
	if onPull(m) {
		return e.stack(ctx, gh, t)
	}
	_, err = e.start(ctx, t)
	return "Trying again.", err
}
