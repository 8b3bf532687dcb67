package mission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// recordOf is what the manifest says of a run beside its changes.
func (e *Engine) recordOf(ctx context.Context, m *store.Mission, run *store.Run) (promote.Record, error) {
	p, err := policyOf(m)
	if err != nil {
		return promote.Record{}, err
	}
	r := promote.Record{Policy: p.Digest(), BotVersion: buildVersion()}
	if run.Receipt != "" {
		sum := sha256.Sum256([]byte(run.Receipt))
		r.Receipt = "sha256:" + hex.EncodeToString(sum[:])
	}
	r.Findings, err = e.Store.Findings(ctx, m.Run)
	return r, err
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
