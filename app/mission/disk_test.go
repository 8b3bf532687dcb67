package mission

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// A full disk of the machine is neither the agent's fault nor its budget, and it is said who has to do what.
func TestAFullDiskOfTheMachineIsInfrastructure(t *testing.T) {
	t.Parallel()
	o := agent.Outcome{Reason: sandbox.HostFull, Class: agent.CutOff, Summary: "7 bytes are free"}
	var final *outcome.Ended
	if err := verdict(o, 3); !errors.As(err, &final) || final.Outcome != outcome.Infrastructure {
		t.Fatalf("got %v, want %s", err, outcome.Infrastructure)
	}
	for _, part := range []string{"Whoever runs the bot", "`/sandpiper retry`", "7 bytes are free"} {
		if !strings.Contains(final.Error(), part) {
			t.Errorf("it does not say %q: %v", part, final)
		}
	}
}
