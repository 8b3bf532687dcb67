package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// AddFindings records facts about the boundary and gives those that were not recorded yet, which stay as they were.
func (s *Store) AddFindings(ctx context.Context, findings []sandbox.Finding) (fresh []sandbox.Finding, err error) {
	err = s.inTx(ctx, func(tx conn, _ *sql.Tx) error {
		fresh = nil
		for _, f := range findings {
			result, err := tx.exec(ctx, `insert into findings (run, at, kind, severity, observer, evidence, outcome)
				values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing`, f.Run, millis(f.Time), f.Kind, f.Severity, f.Observer, f.Evidence, f.Outcome)
			if err != nil {
				return fmt.Errorf("finding of %s: %w", f.Run, err)
			}
			if n, err := result.RowsAffected(); err == nil && n > 0 {
				fresh = append(fresh, f)
			}
		}
		return nil
	})
	return fresh, err
}

const findingColumns = `select run, at, kind, severity, observer, evidence, outcome from findings `

// Findings reads what was recorded of a run, in the sandbox of its checks too.
func (s *Store) Findings(ctx context.Context, run string) ([]sandbox.Finding, error) {
	return s.findings(ctx, findingColumns+`where run = ? or run like ? order by at, id`, run, run+"-%")
}

// FindingsSince reads what was recorded of all runs since a time, the oldest first.
func (s *Store) FindingsSince(ctx context.Context, since time.Time) ([]sandbox.Finding, error) {
	return s.findings(ctx, findingColumns+`where at >= ? order by at, id`, millis(since))
}

func (s *Store) findings(ctx context.Context, query string, args ...any) (found []sandbox.Finding, err error) {
	rows, err := s.query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("findings: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var f sandbox.Finding
		var at int64
		if err := rows.Scan(&f.Run, &at, &f.Kind, &f.Severity, &f.Observer, &f.Evidence, &f.Outcome); err != nil {
			return nil, fmt.Errorf("findings: %w", err)
		}
		f.Time = fromMillis(at)
		found = append(found, f)
	}
	return found, rows.Err()
}
