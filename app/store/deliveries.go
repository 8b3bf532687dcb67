package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// Delivery is a stored delivery and how far it is.
type Delivery struct {
	webhooks.Delivery
	Attempts int
}

// ClaimDeliveries gives deliveries that are to be handled now, the oldest first, and has them due again after the time
// that handling may take: a bot that dies over them does not keep them.
func (s *Store) ClaimDeliveries(ctx context.Context, now time.Time, most int, until time.Time) (claimed []Delivery, err error) {
	lock := ""
	if s.Postgres() {
		lock = " for update skip locked"
	}
	rows, err := s.query(ctx, `update deliveries set due_at = ? where id in (
			select id from deliveries where handled_at = 0 and due_at <= ? order by received_at, id limit ?`+lock+`)
		returning id, event, action, installation_id, repository_id, received_at, body, attempts`, millis(until), millis(now), most)
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var d Delivery
		var received int64
		if err := rows.Scan(&d.ID, &d.Event, &d.Action, &d.InstallationID, &d.RepositoryID, &received, &d.Body, &d.Attempts); err != nil {
			return nil, fmt.Errorf("claim deliveries: %w", err)
		}
		d.ReceivedAt = fromMillis(received)
		if d.Body, err = unpack(d.Body); err != nil {
			return nil, fmt.Errorf("delivery %s: %w", d.ID, err)
		}
		claimed = append(claimed, d)
	}
	slices.SortFunc(claimed, func(a, b Delivery) int {
		return cmp.Or(a.ReceivedAt.Compare(b.ReceivedAt), cmp.Compare(a.ID, b.ID))
	})
	return claimed, rows.Err()
}

// ReleaseDeliveries has everything that is not handled due now. For the start of a bot that shares its database with no other.
func (s *Store) ReleaseDeliveries(ctx context.Context, now time.Time) error {
	if _, err := s.exec(ctx, `update deliveries set due_at = ? where handled_at = 0 and due_at > ?`, millis(now), millis(now)); err != nil {
		return fmt.Errorf("release deliveries: %w", err)
	}
	return nil
}

// Known says which of the ids are stored.
func (s *Store) Known(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	for _, id := range ids {
		var one int
		err := s.row(ctx, `select 1 from deliveries where id = ?`, id).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("delivery %s: %w", id, err)
		}
		known[id] = true
	}
	return known, nil
}

// Handled ends a delivery. The body is dropped: what mattered of it is in the missions by now.
func (s *Store) Handled(ctx context.Context, id, outcome string, now time.Time) error {
	_, err := s.exec(ctx, `update deliveries set handled_at = ?, outcome = ?, body = ? where id = ?`, millis(now), outcome, []byte{}, id)
	if err != nil {
		return fmt.Errorf("delivery %s: %w", id, err)
	}
	return nil
}

// Postpone has a delivery handled again later.
func (s *Store) Postpone(ctx context.Context, id string, until time.Time) error {
	_, err := s.exec(ctx, `update deliveries set attempts = attempts + 1, due_at = ? where id = ?`, millis(until), id)
	if err != nil {
		return fmt.Errorf("delivery %s: %w", id, err)
	}
	return nil
}

// NextDelivery says when the next delivery is due; zero when none is.
func (s *Store) NextDelivery(ctx context.Context) (time.Time, error) {
	var at sql.NullInt64
	if err := s.row(ctx, `select min(due_at) from deliveries where handled_at = 0`).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("next delivery: %w", err)
	}
	return fromMillis(at.Int64), nil
}

// Forget removes handled deliveries that are older than the time, so that the table stays small. GitHub itself keeps its
// log for days, so an id that is forgotten after longer than that cannot come again.
func (s *Store) Forget(ctx context.Context, before time.Time) (int64, error) {
	result, err := s.exec(ctx, `delete from deliveries where handled_at > 0 and handled_at < ?`, millis(before))
	if err != nil {
		return 0, fmt.Errorf("forget deliveries: %w", err)
	}
	return result.RowsAffected()
}
