package mission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// agentExec names the agent's execution in its sandbox.
const agentExec = "agent"

// A look at a running agent costs two small files.
const lookEvery = 100 * time.Millisecond

// execute starts the agent, once, and looks whether it is done. It runs under a supervisor: neither this step nor the bot has
// to live as long as it does.
func (e *Engine) execute(ctx context.Context, m *store.Mission) (next, error) {
	profile, command, err := e.agentCommand(ctx, m)
	if err != nil {
		return next{}, err
	}
	id := sandbox.ID(m.Run)
	if err := e.Sandboxes.Start(ctx, id, agentExec, command); err != nil {
		return next{}, fmt.Errorf("start the agent of %s: %w", id, err)
	}
	if err := e.tell(ctx, m); err != nil {
		e.Log.Warn("status comment", "mission", m.ID, "error", err) // the agent does not wait for it
	}
	exit, err := e.look(ctx, id)
	if err != nil {
		return next{}, err
	}
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return next{}, err
	}
	run.Agent, run.Exit = profile.Name, marshal(exit)
	if err := e.Store.SaveRun(ctx, run); err != nil {
		return next{}, err
	}
	return next{step: stepInspect, found: profile.Name + describeSpent(exit.Spent)}, nil
}

// look polls the agent until it is done or the tick has to make room.
func (e *Engine) look(ctx context.Context, id sandbox.ID) (sandbox.Exit, error) {
	ctx, cancel := e.parkable(ctx)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		exit, done, err := e.Sandboxes.Poll(context.WithoutCancel(ctx), id, agentExec)
		if done || err != nil {
			return exit, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return sandbox.Exit{}, context.Cause(ctx)
		}
	}
}

// agentCommand is how the mission's agent is called. It is the same at each call.
func (e *Engine) agentCommand(ctx context.Context, m *store.Mission) (agent.Profile, sandbox.Command, error) {
	p, err := policyOf(m)
	if err != nil {
		return agent.Profile{}, sandbox.Command{}, err
	}
	profile, err := e.profileOf(m)
	if err != nil {
		return agent.Profile{}, sandbox.Command{}, outcome.End(outcome.BlockedByPolicy, err, "%v", err)
	}
	grant, err := e.allowance(ctx, m, p)
	if err != nil {
		return agent.Profile{}, sandbox.Command{}, err
	}
	command, err := profile.Command(agent.Launch{
		Dir: e.taskDir(m.Run), Timeout: p.Budget.Time, Output: int64(p.Budget.Output), Network: p.Network,
		Models: e.Models, Grant: grant,
	})
	return profile, command, err
}

func (e *Engine) profileOf(m *store.Mission) (agent.Profile, error) {
	p, err := policyOf(m)
	if err != nil {
		return agent.Profile{}, err
	}
	if file, ok := e.hostAgent(); ok && p.Agent.IsZero() {
		return agent.Script(e.staged(m, file))
	}
	named, err := e.agentFor(p)
	if err != nil {
		return agent.Profile{}, err
	}
	return agent.Lookup(named)
}

// agentOutcome reads what the agent printed, and judges it with its exit status.
func (e *Engine) agentOutcome(m *store.Mission, run *store.Run) (agent.Outcome, error) {
	profile, err := e.profileOf(m)
	if err != nil {
		return agent.Outcome{}, err
	}
	var exit sandbox.Exit
	if err := json.Unmarshal([]byte(run.Exit), &exit); err != nil {
		return agent.Outcome{}, fmt.Errorf("exit of %s: %w", run.ID, err)
	}
	parser := profile.Parser()
	log, err := os.Open(e.Sandboxes.Log(sandbox.ID(run.ID), agentExec))
	if errors.Is(err, os.ErrNotExist) { // it never began
		return parser.Outcome(exit), nil
	}
	if err != nil {
		return agent.Outcome{}, fmt.Errorf("log of %s: %w", run.ID, err)
	}
	defer log.Close()
	stream := agent.NewStream(parser, nil)
	if _, err := io.Copy(stream, log); err != nil {
		return agent.Outcome{}, fmt.Errorf("log of %s: %w", run.ID, err)
	}
	stream.Flush()
	return parser.Outcome(exit), nil
}

// verdict says whether the work of an agent ends here; nil: there is something to check. An agent that failed has its changes
// kept in the store and not promoted: half a change is worse than none.
func verdict(o agent.Outcome, changes int) error {
	kept := ""
	if changes > 0 {
		kept = fmt.Sprintf(" (changes in the store, kept and not promoted: %d)", changes)
	}
	switch o.Reason {
	case sandbox.TimedOut, sandbox.Flooded, sandbox.Overfull, sandbox.OutOfMem:
		return outcome.End(outcome.OutOfBudget, nil, "%s%s", cmp.Or(o.Summary, string(o.Reason)), kept)
	case sandbox.HostFull:
		return outcome.End(outcome.Infrastructure, nil, "%s", hostFull(o.Summary))
	case sandbox.Lost:
		return outcome.End(outcome.Infrastructure, nil, "the agent's supervisor is gone without an exit status: the machine was restarted, the process was killed, or the disk was full%s", kept)
	case sandbox.Cancelled:
		return outcome.End(outcome.Cancelled, nil, "the agent was stopped%s", kept)
	}
	switch o.Class {
	case agent.Finished, agent.Denied:
		if changes == 0 {
			return outcome.End(outcome.NoChange, nil, "the agent changed nothing; it said: %s", cmp.Or(o.Summary, "nothing"))
		}
		return nil
	case agent.Nothing:
		if changes == 0 {
			return outcome.End(outcome.NoChange, nil, "%s", o.Summary)
		}
		return nil
	case agent.NotStarted:
		return outcome.End(outcome.GaveUp, nil, "the agent could not start: %s", o.Summary)
	}
	return outcome.End(outcome.GaveUp, nil, "%s: %s%s", o.Class, o.Summary, kept)
}

// hostFull says who can do what about a disk on which the bot has nothing left but what it needs itself.
func hostFull(seen string) string {
	return "the disk of the machine that the bot runs on is full, so the run was ended; no limit of its own was reached. Whoever runs the bot has to make room there " +
		"(`sandpiper sandbox list --all`, then `discard` or `reap`; or a larger disk), then `/sandpiper retry`. Nothing was promoted; the sandbox stays as it is. Seen was: " + seen
}
