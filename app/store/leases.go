package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLeased is returned by Lease when another worker has the mission.
var ErrLeased = errors.New("another worker is at it")

// Lease gives a mission to one worker until a time. The same worker may take it again, which prolongs it. It returns the
// mission as it is then.
func (s *Store) Lease(ctx context.Context, id, worker string, now, until time.Time) (*Mission, error) {
	result, err := s.exec(ctx, `update missions set lease = ?, lease_until = ? where id = ? and ended_at = 0 and (lease = ? or lease_until <= ?)`,
		worker, millis(until), id, worker, millis(now))
	if err != nil {
		return nil, fmt.Errorf("lease of mission %s: %w", id, err)
	}
	m, err := s.Mission(ctx, id)
	if err != nil {
		return nil, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 && !m.Ended() {
		return nil, fmt.Errorf("mission %s: %w", id, errors.Join(ErrLeased, err))
	}
	return m, nil
}

// Unlease lets go of a mission.
func (s *Store) Unlease(ctx context.Context, id, worker string) error {
	if _, err := s.exec(ctx, `update missions set lease = '', lease_until = 0 where id = ? and lease = ?`, id, worker); err != nil {
		return fmt.Errorf("lease of mission %s: %w", id, err)
	}
	return nil
}

// UnleaseHost lets go of all that workers of a host held, for its start: they are gone. A worker's name begins with its host's.
func (s *Store) UnleaseHost(ctx context.Context, host string) error {
	if _, err := s.exec(ctx, `update missions set lease = '', lease_until = 0 where lease like ?`, host+"/%"); err != nil {
		return fmt.Errorf("leases of host %s: %w", host, err)
	}
	return nil
}

// Overdue gives the open missions that have been due since before a time and that nobody works on: their ticks were lost.
func (s *Store) Overdue(ctx context.Context, before, now time.Time) ([]*Mission, error) {
	return s.missions(ctx, `where ended_at = 0 and due_at > 0 and due_at <= ? and lease_until <= ? order by due_at, id`, millis(before), millis(now))
}

// Beat says that a host lives.
func (s *Store) Beat(ctx context.Context, host, name string, now time.Time) error {
	_, err := s.exec(ctx, `insert into hosts (id, name, seen_at) values (?, ?, ?) on conflict (id) do update set name = excluded.name, seen_at = excluded.seen_at`,
		host, name, millis(now))
	if err != nil {
		return fmt.Errorf("heartbeat of %s: %w", host, err)
	}
	return nil
}

// Stranded gives the open missions with a sandbox on a host that has not been seen since a time.
func (s *Store) Stranded(ctx context.Context, since time.Time) ([]*Mission, error) {
	return s.missions(ctx, `where ended_at = 0 and host in (select id from hosts where seen_at < ?) order by id`, millis(since))
}
