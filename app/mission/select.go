package mission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

const selectHelp = "`/sandpiper promote only PATH…` takes these paths and nothing else, `/sandpiper drop PATH…` leaves some out, " +
	"`/sandpiper promote all` takes everything. A path may have `*` and `**`; one with spaces stands in double quotes. " +
	"`PATH:2` or `PATH:1,4-6` are single hunks of a file, counted from its top in the whole of what the agent made; `PATH:mode` is the change of its mode."

// selection takes another part of what the run made. What is left out stays in the store.
func (e *Engine) selection(ctx context.Context, _ *github.Client, m *store.Mission, c webhooks.Slash) (string, error) {
	run, err := e.Store.Run(ctx, m.Run)
	switch {
	case m.Kind != store.KindIssue:
		return "This is for missions on issues: say it there.", nil
	case m.Ended():
		return overAlready(m), nil
	case errors.Is(err, store.ErrNone), slices.Contains([]string{stepTake, stepQueue, stepCreate}, m.Step):
		return "There is nothing to select from yet: the agent has not begun.", nil
	case m.Step == stepClose:
		return "Mission " + m.ID + " is ending.", nil
	case err != nil:
		return "", err
	}
	was, err := offerOf(run)
	if err != nil {
		return "", err
	}
	sel, problem := readSelection(c, was.Selection)
	if problem != "" {
		return problem + "\n\n" + selectHelp, nil
	}
	if run.Changes == "" && slices.ContainsFunc(slices.Concat(sel.Only, sel.Drop), sandbox.IsPart) {
		return "The agent is at work still: its hunks have no numbers yet. Paths can be selected at any time.", nil
	}
	if none, err := leavesNothing(run, sel); none || err != nil {
		return "Nothing that the run changed would be left. " + selectHelp, err
	}
	text, err := json.Marshal(sel)
	if err != nil {
		return "", err
	}
	said := "Mission " + m.ID + " will be promoted with this selection once the agent is done."
	if run.Changes != "" {
		said = "Mission " + m.ID + " is staged and checked once more with this selection. What is left out is listed in the pull request and kept in the bot's store."
	}
	return said, e.ask(ctx, m, wantSelect+string(text), c.Author.Login)
}

// readSelection reads the arguments of promote and drop. The problem is for people.
func readSelection(c webhooks.Slash, was sandbox.Selection) (sel sandbox.Selection, problem string) {
	words, ok := splitWords(c.Args)
	if !ok {
		return sel, "A quotation mark is not closed."
	}
	switch {
	case c.Verb == "drop" && len(words) > 0:
		sel = sandbox.Selection{Only: was.Only, Drop: append(slices.Clone(was.Drop), words...)}
	case c.Verb == "promote" && len(words) > 1 && words[0] == "only":
		sel = sandbox.Selection{Only: words[1:]}
	case c.Verb == "promote" && len(words) == 1 && words[0] == "all":
	default:
		return sel, "That is not complete."
	}
	if err := sel.Check(); err != nil {
		return sel, "This cannot be read: " + quote.Text(err.Error()) + "."
	}
	return sel, ""
}

// splitWords splits at spaces outside of double quotes.
func splitWords(s string) (words []string, ok bool) {
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words, strings.Count(s, `"`)%2 == 0
}

// leavesNothing says whether a selection takes nothing of what is known to have changed.
func leavesNothing(run *store.Run, sel sandbox.Selection) (bool, error) {
	if run.Changes == "" {
		return false, nil
	}
	var changes []sandbox.Change
	if err := json.Unmarshal([]byte(run.Changes), &changes); err != nil {
		return false, fmt.Errorf("changes of %s: %w", run.ID, err)
	}
	return !slices.ContainsFunc(changes, func(c sandbox.Change) bool {
		return sel.Takes(c.Path) || c.From != "" && sel.Takes(c.From)
	}), nil
}
