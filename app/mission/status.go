package mission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/say"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// stepWords say to people what a step does.
var stepWords = map[string]string{
	stepTake:    "taking it up",
	stepQueue:   "waiting for a place",
	stepCreate:  "making the sandbox",
	stepExecute: "the agent is at work",
	stepInspect: "looking at what changed",
	stepVerify:  "running the checks",
	stepPromote: "opening the pull request",
	stepReport:  "reporting the checks",
	stepArchive: "cleaning up",
	stepClose:   "cleaning up",
	stepWaiting: "waiting for a review",
}

func wordsFor(m *store.Mission) string {
	if m.Step == stepPromote && isFork(m) {
		return "suggesting it"
	}
	return stepWords[m.Step]
}

// tell brings the mission's status comment up to date: made once, edited in place, left alone when nothing is new.
func (e *Engine) tell(ctx context.Context, m *store.Mission) error {
	if m.Kind == store.KindGroup || m.Kind == store.KindChecks && (m.Outcome == "" || m.Outcome == string(outcome.Checked)) {
		return nil // its Check Runs tell it all
	}
	text := e.statusText(ctx, m)
	// Not of the text, which holds the time that has passed.
	sum := sha256.Sum256([]byte(strings.Join([]string{m.Step, m.Run, m.Outcome, m.Message, m.PullURL, trouble(m)}, "\x00")))
	digest := hex.EncodeToString(sum[:8])
	if digest == m.CommentDigest || m.CommentID < 0 && !sayEnd(m) {
		return nil
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	if err := e.show(ctx, gh, m, text); err != nil {
		return err
	}
	m.CommentDigest = digest
	return e.Store.Told(context.WithoutCancel(ctx), m.ID, m.CommentID, digest)
}

// show makes the status comment say something.
func (e *Engine) show(ctx context.Context, gh *github.Client, m *store.Mission, text string) error {
	key := "status:" + m.ID
	if m.CommentID < 0 {
		return e.say.Once(ctx, gh, repoOf(m), m.Number, "end:"+m.Run, text)
	}
	if m.CommentID == 0 {
		id, found, err := e.say.Comment(ctx, gh, repoOf(m), m.Number, key, text)
		if err != nil {
			return err
		}
		if m.CommentID = id; !found {
			return nil
		}
	}
	err := e.say.Edit(ctx, gh, repoOf(m), m.CommentID, key, text)
	if errors.Is(err, say.ErrGone) {
		m.CommentID = -1 // a person does not want to see how it goes
		if sayEnd(m) {
			return e.show(ctx, gh, m, text)
		}
		return nil
	}
	return err
}

// sayEnd says whether the mission has an end that has to be said even where a person has deleted the status comment: silence would
// look as if it had been forgotten. What becomes of a pull request is seen there.
func sayEnd(m *store.Mission) bool {
	return m.Outcome != "" && (m.Pull == 0 || m.Step != stepClose && m.Attempt == 1)
}

// unseen is how long a step may take before a person is shown that something is going on. One that is done sooner leaves it
// to the next step to say so: two edits within seconds are one too many.
const unseen = 3 * time.Second

// tellLater tells of a step that is still at work after a while. The result ends that, and waits for what is being told.
func (e *Engine) tellLater(ctx context.Context, m *store.Mission) (done func()) {
	shown := *m // the step goes on changing its own
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(unseen)
		defer timer.Stop()
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if err := e.tell(ctx, &shown); err != nil && ctx.Err() == nil {
			e.Log.Warn("status comment", "mission", shown.ID, "error", err)
		}
	}()
	return func() {
		close(stop)
		<-stopped
		m.CommentID, m.CommentDigest = shown.CommentID, shown.CommentDigest
	}
}

// statusText is the status comment. It holds nothing that an agent or a stranger wrote but the issue's title, quoted.
func (e *Engine) statusText(ctx context.Context, m *store.Mission) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**Sandpiper** · mission `%s`, started by %s\n\n", m.ID, quote.Text(m.Requester))
	switch {
	case m.Outcome == "":
		fmt.Fprintf(&b, "⏳ **%s**", wordsFor(m))
	case m.Outcome == string(outcome.Changed), m.Outcome == string(outcome.Checked):
		fmt.Fprintf(&b, "✅ **%s**", m.Outcome)
	case m.Outcome == string(outcome.NoChange):
		fmt.Fprintf(&b, "➖ **%s**", m.Outcome)
	default:
		fmt.Fprintf(&b, "⛔ **%s**", m.Outcome)
	}
	if m.Message != "" {
		fmt.Fprintf(&b, ": %s", quote.Text(m.Message))
	}
	if why := trouble(m); why != "" {
		fmt.Fprintf(&b, "\n\nIt cannot go on for now: %s. It is tried again each minute and goes on by itself; after four hours it ends.", quote.Text(why))
	}
	b.WriteString("\n\n| | |\n| --- | --- |\n")
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", name, value)
		}
	}
	if m.Base != "" {
		row("base", fmt.Sprintf("`%.12s` (%s)", m.Base, quote.Text(m.BaseBranch)))
	}
	row("run", "`"+m.Run+"`")
	switch {
	case m.Pull > 0:
		row("pull request", fmt.Sprintf("[#%d](%s)", m.Pull, m.PullURL))
	case m.PullURL != "":
		row("review", "[what it suggests]("+m.PullURL+")")
	}
	if m.Attempt > 1 && m.Pull > 0 {
		row("round", fmt.Sprint(m.Attempt))
	}
	row("policy", quote.Text(m.PolicySource))
	e.boundaryTable(ctx, m, row)
	if m.Outcome != "" {
		row("took", m.UpdatedAt.Sub(m.CreatedAt).Round(time.Second).String())
		after := nextOf(m)
		if held, err := e.onHold(ctx, m); held && err == nil {
			after = onHoldNext
		}
		fmt.Fprintf(&b, "\n%s", after)
	} else {
		row("for", e.Now().Sub(m.CreatedAt).Round(time.Second).String())
		b.WriteString("\n`/sandpiper cancel` stops it.")
	}
	b.WriteString(" `/sandpiper help` lists the commands.")
	return b.String()
}

// trouble is what a step has been waiting for so long that people should know.
func trouble(m *store.Mission) string {
	if m.Failures < long {
		return ""
	}
	return m.Trouble
}

// nextOf says what a person can do after the work of a mission has ended.
func nextOf(m *store.Mission) string {
	o := outcome.Outcome(m.Outcome)
	switch {
	case m.Pull > 0 && !m.Ended() && m.Step != stepClose && o != outcome.Changed:
		return followNext
	case isFork(m) && o == outcome.Changed:
		return "Whoever may push to the branch takes a suggestion by a click, or leaves it. `/sandpiper fix [words]` starts anew from its head."
	case onPull(m):
		return o.NextOnPull()
	}
	return o.Next()
}
