package mission

import (
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote/gates"
)

// TestOnlyAGateHolds: a round that the policy ends is not held by a gate for that, and nobody is told to let one pass.
func TestOnlyAGateHolds(t *testing.T) {
	t.Parallel()
	found := func(level gates.Level, allowed string) []gates.Result {
		return []gates.Result{{Gate: "secrets", Level: level, Allowed: allowed, Found: []gates.Evidence{{Path: "a.env", Text: "a key"}}}}
	}
	for name, c := range map[string]struct {
		gates []gates.Result
		fork  bool
		step  string
		want  bool
	}{
		"a gate that blocks":                  {found(gates.Block, ""), false, stepWaiting, true},
		"a gate that blocks, let pass":        {found(gates.Block, "rita"), false, stepWaiting, false},
		"a gate that makes it a draft":        {found(gates.Draft, ""), false, stepWaiting, false},
		"a gate that keeps suggestions back":  {found(gates.Draft, ""), true, stepWaiting, true},
		"no gate, but a setup step":           {nil, false, stepWaiting, false},
		"the end of what a gate had held":     {found(gates.Block, ""), false, stepClose, false},
		"the archive before it waits for one": {found(gates.Block, ""), false, stepArchive, true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, newHub(t, nil))
			m := e.begun(t, c.step)
			m.Pull, m.Outcome, m.Message, m.Task = 9, string(outcome.BlockedByPolicy), "because", marshal(task{Fork: c.fork})
			if err := e.Store.SaveRun(t.Context(), &store.Run{ID: m.Run, Mission: m.ID, Attempt: 1, Offer: marshal(offer{Gates: c.gates}), CreatedAt: noon}); err != nil {
				t.Fatal(err)
			}
			held, err := e.onHold(t.Context(), m)
			if held != c.want || err != nil {
				t.Errorf("held: %v, %v", held, err)
			}
			if said := e.statusText(t.Context(), m); strings.Contains(said, "/sandpiper allow GATE") != c.want {
				t.Errorf("the status comment says\n%s", said)
			}
		})
	}
	e := newEngine(t, newHub(t, nil)) // a round that ended before it had a run
	m := e.begun(t, stepWaiting)
	m.Outcome = string(outcome.BlockedByRule)
	if held, err := e.onHold(t.Context(), m); held || err != nil {
		t.Errorf("without a run: held: %v, %v", held, err)
	}
}
