package mission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// held are the gates that keep an offer from being what a level says: gates.Block from being a pull request, gates.Draft from
// being ready.
func (o offer) held(l gates.Level) (held []gates.Result) {
	for _, g := range o.Gates {
		if g.Holds(l) {
			held = append(held, g)
		}
	}
	return held
}

// holding is the level from which a gate keeps a mission's offer from being made.
func holding(m *store.Mission) gates.Level {
	if isFork(m) { // a suggestion is no draft: whoever may push takes it with a click
		return gates.Draft
	}
	return gates.Block
}

// hold ends the work on an offer that a gate blocks. The result is kept and the mission stays open: a person can leave out
// what the gate found, or say that it may be.
func (e *Engine) hold(m *store.Mission, o offer) (next, bool) {
	blocked := o.held(holding(m))
	if len(blocked) == 0 {
		return next{}, false
	}
	class := outcome.BlockedByPolicy
	var reasons []string
	for _, g := range blocked {
		reasons = append(reasons, because(g))
		if g.Gate == gates.Workflows {
			class = outcome.BlockedByRule
		}
	}
	m.Outcome, m.Message = string(class), strings.Join(reasons, "; ")
	return next{step: stepArchive, found: m.Message}, true
}

// onHold says whether a mission waits for a person because of a gate, by what is recorded of its present offer.
func (e *Engine) onHold(ctx context.Context, m *store.Mission) (bool, error) {
	if m.Step != stepArchive && m.Step != stepWaiting {
		return false, nil
	}
	run, err := e.Store.Run(ctx, m.Run)
	if errors.Is(err, store.ErrNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o, err := offerOf(run)
	return len(o.held(holding(m))) > 0, err
}

// whatWaits says what of a mission waits for people.
func whatWaits(m *store.Mission) string {
	if m.Pull > 0 {
		return fmt.Sprintf("has pull request #%d waiting for a review.", m.Pull)
	}
	return "is held by a gate."
}

const onHoldNext = "Nothing of it is lost. `/sandpiper drop PATH…` leaves out what the gate found, `/sandpiper allow GATE` says that it may be, `/sandpiper discard` ends the mission."

// wantAllow begins a wish to settle gates; their names follow.
const wantAllow = "allow "

// allow settles gates by the word of a person with write access.
func (e *Engine) allow(ctx context.Context, _ *github.Client, m *store.Mission, c webhooks.Slash) (string, error) {
	run, err := e.Store.Run(ctx, m.Run)
	if m.Kind != store.KindIssue || m.Ended() || errors.Is(err, store.ErrNone) {
		return "There is nothing to allow: no gate holds anything here.", nil
	}
	if err != nil {
		return "", err
	}
	o, err := offerOf(run)
	if err != nil {
		return "", err
	}
	var open []string
	for _, g := range o.held(gates.Draft) {
		if !slices.ContainsFunc(gates.All(), func(k gates.Gate) bool { return k.Fixed && k.Name == g.Gate }) {
			open = append(open, g.Gate)
		}
	}
	names := strings.Fields(strings.ToLower(c.Args))
	known := func(name string) bool { return slices.Contains(open, name) }
	switch {
	case len(open) == 0:
		return "There is nothing to allow: no gate holds anything here that people could let pass.", nil
	case len(names) == 0, slices.ContainsFunc(names, func(n string) bool { return !known(n) }):
		return "Name the gates that may be passed, of these: `" + strings.Join(open, "`, `") + "`.", nil
	}
	return "Noted: @" + c.Author.Login + " lets `" + strings.Join(names, "`, `") + "` pass for exactly this change.",
		e.ask(ctx, m, wantAllow+strings.Join(names, " "), c.Author.Login)
}

// letPass notes who let gates pass, and goes on where they held.
func (e *Engine) letPass(ctx context.Context, m *store.Mission) (next, error) {
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return next{}, err
	}
	o, err := offerOf(run)
	if err != nil {
		return next{}, err
	}
	names := strings.Fields(strings.TrimPrefix(m.Want, wantAllow))
	for i := range o.Gates {
		if slices.Contains(names, o.Gates[i].Gate) && o.Gates[i].Allowed == "" {
			o.Gates[i].Allowed = m.WantBy
		}
	}
	run.Offer = marshal(o)
	if err := e.Store.SaveRun(ctx, run); err != nil {
		return next{}, err
	}
	m.Outcome, m.Message = "", ""
	if to, held := e.hold(m, o); held {
		m.Step = to.step
	} else if run.Checks == "" {
		m.Step = stepVerify
	} else {
		m.Step = stepPromote
	}
	if err := e.Store.Save(ctx, m, e.Now()); err != nil {
		return next{}, err
	}
	return next{step: m.Step}, e.Store.Wanted(ctx, m.ID)
}
