package mission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// recordFindings takes what is known of a sandbox into the database, and each new finding onto the audit record.
func (e *Engine) recordFindings(ctx context.Context, m *store.Mission, id sandbox.ID) error {
	record, err := e.Sandboxes.Record(id)
	if errors.Is(err, sandbox.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	fresh, err := e.Store.AddFindings(ctx, record.Findings)
	if err != nil {
		return err
	}
	for _, f := range fresh {
		e.Audit(ctx, audit.Entry{Kind: "finding", Mission: m.ID, Run: string(f.Run), Repository: m.Owner + "/" + m.Name, Time: f.Time, Data: f})
	}
	return nil
}

// severities in order, the least first.
var severities = []string{"info", "low", "medium", "high", "critical"}

// worst is the finding that a person should see first: one that is not contained, then the most severe.
func worst(found []sandbox.Finding) sandbox.Finding {
	return slices.MaxFunc(found, func(a, b sandbox.Finding) int { return weight(a) - weight(b) })
}

func weight(f sandbox.Finding) int {
	n := slices.Index(severities, f.Severity)
	switch f.Outcome {
	case "breach":
		n += 200
	case "inconclusive":
		n += 100
	}
	return n
}

// describeFindings says how many there are, and the worst of them.
func describeFindings(found []sandbox.Finding) string {
	if len(found) == 0 {
		return "none"
	}
	w := worst(found)
	return fmt.Sprintf("%d, worst: %s, %s, %s (seen by the %s): %.200s", len(found), w.Kind, w.Severity, w.Outcome, w.Observer, w.Evidence)
}

// boundaryRows are what the status comment and the pull request say of the boundary of a run.
func (e *Engine) boundaryRows(ctx context.Context, run string) []promote.Item {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	t, err := e.savedTrust(ctx, run)
	if err != nil {
		return nil // not decided yet
	}
	against := "a mistake"
	if t.Tier == probe.Outsider {
		against = "an adversary"
	}
	backend := t.Backend
	if r, err := e.Sandboxes.Record(sandbox.ID(run)); err == nil {
		backend = r.Backend // what an automatic choice came to
	}
	rows := []promote.Item{{What: "boundary", Note: fmt.Sprintf("contains %s (%s, by %s), since %s", against, t.Tier, backend, t.Because)}}
	if found, err := e.Store.Findings(ctx, run); err == nil {
		rows = append(rows, promote.Item{What: "findings", Note: describeFindings(found)})
	}
	return rows
}

func (e *Engine) boundaryTable(ctx context.Context, m *store.Mission, row func(name, value string)) {
	for _, item := range e.boundaryRows(ctx, m.Run) {
		row(item.What, quote.Text(item.Note))
	}
}
