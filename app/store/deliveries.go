package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// Delivery is a stored delivery and how far it is.
type Delivery struct {
	webhooks.Delivery
	Attempts int
}

// Put stores a delivery durably. fresh is false when one with its id is stored already, whatever it held: GitHub uses
// the id again when it delivers again (https://docs.github.com/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks).
func (s *Store) Put(ctx context.Context, d webhooks.Delivery) (fresh bool, err error) {
	result, err := s.db.ExecContext(ctx, `insert into deliveries (id, event, action, installation_id, repository_id, received_at, body, due_at)
		values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do nothing`,
		d.ID, d.Event, d.Action, d.InstallationID, d.RepositoryID, millis(d.ReceivedAt), d.Body, millis(d.ReceivedAt))
	if err != nil {
		return false, fmt.Errorf("delivery %s: %w", d.ID, err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// DueDeliveries gives deliveries that are to be handled now, the oldest first.
func (s *Store) DueDeliveries(ctx context.Context, now time.Time, most int) ([]Delivery, error) {
	rows, err := s.db.QueryContext(ctx, `select id, event, action, installation_id, repository_id, received_at, body, attempts
		from deliveries where handled_at = 0 and due_at <= ? order by received_at, rowid limit ?`, millis(now), most)
	if err != nil {
		return nil, fmt.Errorf("due deliveries: %w", err)
	}
	defer rows.Close()
	var due []Delivery
	for rows.Next() {
		var d Delivery
		var received int64
		if err := rows.Scan(&d.ID, &d.Event, &d.Action, &d.InstallationID, &d.RepositoryID, &received, &d.Body, &d.Attempts); err != nil {
			return nil, fmt.Errorf("due deliveries: %w", err)
		}
		d.ReceivedAt = fromMillis(received)
		due = append(due, d)
	}
	return due, rows.Err()
}

// Handled ends a delivery. The body is dropped: what mattered of it is in the missions by now.
func (s *Store) Handled(ctx context.Context, id, outcome string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `update deliveries set handled_at = ?, outcome = ?, body = x'' where id = ?`, millis(now), outcome, id)
	if err != nil {
		return fmt.Errorf("delivery %s: %w", id, err)
	}
	return nil
}

// Postpone has a delivery handled again later.
func (s *Store) Postpone(ctx context.Context, id string, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `update deliveries set attempts = attempts + 1, due_at = ? where id = ?`, millis(until), id)
	if err != nil {
		return fmt.Errorf("delivery %s: %w", id, err)
	}
	return nil
}

// NextDue says when the next delivery or mission is due; zero when nothing is.
func (s *Store) NextDue(ctx context.Context) (time.Time, error) {
	var at sql.NullInt64
	err := s.db.QueryRowContext(ctx, `select min(at) from (
		select min(due_at) as at from deliveries where handled_at = 0 union all
		select min(due_at) as at from missions where ended_at = 0 and due_at > 0)`).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("next due: %w", err)
	}
	return fromMillis(at.Int64), nil
}

// Forget removes handled deliveries that are older than the time, so that the table stays small. GitHub itself keeps its
// log for days, so an id that is forgotten after longer than that cannot come again.
func (s *Store) Forget(ctx context.Context, before time.Time) (int64, error) {
	result, err := s.db.ExecContext(ctx, `delete from deliveries where handled_at > 0 and handled_at < ?`, millis(before))
	if err != nil {
		return 0, fmt.Errorf("forget deliveries: %w", err)
	}
	return result.RowsAffected()
}
