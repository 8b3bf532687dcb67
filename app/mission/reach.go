package mission

import (
	"context"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// reach is what the agent of a mission could get at, for a reviewer who does not know the boundary.
func (e *Engine) reach(ctx context.Context, m *store.Mission) ([]promote.Item, error) {
	_, command, err := e.agentCommand(ctx, m)
	if err != nil {
		return nil, err
	}
	rows := []promote.Item{
		{What: "files", Note: "a copy of the repository, and the machine's programs, which it cannot change"},
		{What: "network", Note: "none"},
		{What: "model", Note: "none offered"},
		{What: "credentials", Note: "none"},
	}
	if len(command.Network) > 0 {
		rows[1].Note = "only what the policy opens: " + strings.Join(command.Network, ", ")
	}
	if command.Broker != nil && len(command.Broker.Models) > 0 {
		rows[2].Note = "the API of " + strings.Join(command.Broker.Models, ", ") + ", through a broker that holds the key and counts"
	}
	return rows, nil
}
