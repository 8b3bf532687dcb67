package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Duty is work that one bot at a time does for all that share the database.
type Duty struct {
	Holder string
	Done   time.Time // zero: never yet
	Result string    // of the last time, for people
}

// TakeDuty gives a duty to a host until a time, or says that another has it. The holder may take it again, which prolongs it.
func (s *Store) TakeDuty(ctx context.Context, name, host string, now, until time.Time) (bool, error) {
	result, err := s.exec(ctx, `insert into duties (name, holder, until) values (?, ?, ?)
		on conflict (name) do update set holder = excluded.holder, until = excluded.until where duties.holder = excluded.holder or duties.until <= ?`,
		name, host, millis(until), millis(now))
	if err != nil {
		return false, fmt.Errorf("duty %s: %w", name, err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// DutyDone records what came of a duty.
func (s *Store) DutyDone(ctx context.Context, name, host, result string, now time.Time) error {
	if _, err := s.exec(ctx, `update duties set done_at = ?, result = ? where name = ? and holder = ?`, millis(now), result, name, host); err != nil {
		return fmt.Errorf("duty %s: %w", name, err)
	}
	return nil
}

// Duty reads how a duty stands; the zero Duty when nobody has taken it yet.
func (s *Store) Duty(ctx context.Context, name string) (Duty, error) {
	var d Duty
	var done int64
	err := s.row(ctx, `select holder, done_at, result from duties where name = ?`, name).Scan(&d.Holder, &done, &d.Result)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return d, fmt.Errorf("duty %s: %w", name, err)
	}
	d.Done = fromMillis(done)
	return d, nil
}
