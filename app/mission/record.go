package mission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime/debug"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// recordOf is what the manifest says of a run beside its changes.
func (e *Engine) recordOf(ctx context.Context, m *store.Mission, run *store.Run) (promote.Record, error) {
	p, err := policyOf(m)
	if err != nil {
		return promote.Record{}, err
	}
	o, err := offerOf(run)
	if err != nil {
		return promote.Record{}, err
	}
	r := promote.Record{Policy: p.Digest(), BotVersion: buildVersion(), AgentVersion: o.Agent}
	if run.Receipt != "" {
		sum := sha256.Sum256([]byte(run.Receipt))
		r.Receipt = "sha256:" + hex.EncodeToString(sum[:])
	}
	r.Findings, err = e.Store.Findings(ctx, m.Run)
	return r, err
}

// tookOf is the agent's time, and its money where the broker counted it.
func tookOf(run *store.Run) string {
	var exit sandbox.Exit
	if run.Exit == "" || json.Unmarshal([]byte(run.Exit), &exit) != nil {
		return ""
	}
	took := exit.Ended.Sub(exit.Started)
	if took < 10*time.Second {
		took = took.Round(100 * time.Millisecond)
	} else {
		took = took.Round(time.Second)
	}
	return took.String() + " of the agent" + describeSpent(exit.Spent)
}

// buildVersion is the version of this program, as far as the build knows it.
func buildVersion() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range build.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return build.Main.Version
}
