package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// SaveTrust records what was decided for a run, once: a decision is not taken again for the same run.
func (s *Store) SaveTrust(ctx context.Context, run, mission, tier, decision string) error {
	if _, err := s.exec(ctx, `insert into trust (run, mission, tier, decision) values (?, ?, ?, ?) on conflict (run) do nothing`, run, mission, tier, decision); err != nil {
		return fmt.Errorf("trust of %s: %w", run, err)
	}
	return nil
}

// Trust reads what was decided for a run.
func (s *Store) Trust(ctx context.Context, run string) (decision string, err error) {
	err = s.row(ctx, `select decision from trust where run = ?`, run).Scan(&decision)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNone
	}
	if err != nil {
		return "", fmt.Errorf("trust of %s: %w", run, err)
	}
	return decision, nil
}
