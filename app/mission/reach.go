package mission

import (
	"context"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// reach is what the agent of a mission could get at, for a reviewer who does not know the boundary.
func (e *Engine) reach(ctx context.Context, m *store.Mission) []promote.Item {
	network, model := "none", "none offered"
	if open := networkOf(m); len(open) > 0 {
		network = "only what the policy opens: " + strings.Join(open, ", ")
	}
	switch _, command, err := e.agentCommand(ctx, m); {
	case err != nil: // the settings have changed since it ran
		model = "not known any more"
	case command.Broker != nil && len(command.Broker.Models) > 0:
		model = "the API of " + strings.Join(command.Broker.Models, ", ") + ", through a broker that holds the key and counts"
	}
	return []promote.Item{
		{What: "files", Note: "a copy of the repository, and the machine's programs, which it cannot change"},
		{What: "network", Note: network},
		{What: "model", Note: model},
		{What: "credentials", Note: "none"},
	}
}
