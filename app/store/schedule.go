package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Place is a mission that waits for a sandbox, or one that has a host's.
type Place struct {
	ID                           string
	InstallationID, RepositoryID int64
	Host                         string // "": it waits
	ReadyAt                      time.Time
	Position                     int  // as it was last told; 0: it never was
	Busy                         bool // somebody is at work on it, so that only they may change it
}

// Plan is what is to become of those who wait.
type Plan struct {
	Begin []string       // they have a place on the host now
	Tell  map[string]int // they are woken, to say at which position they are
}

// Schedule lets a function decide about all missions that wait, alone in all bots, and does that: who begins is the host's and
// queued there. The mission self is its caller's: it is given a place even while it is worked on, and not queued. It gives who
// has begun.
func (s *Store) Schedule(ctx context.Context, host, self string, now time.Time, decide func([]Place) Plan) (begun []string, err error) {
	err = s.inTx(ctx, func(c conn, tx *sql.Tx) error {
		if s.Postgres() {
			if _, err := c.exec(ctx, "select pg_advisory_xact_lock(7307)"); err != nil {
				return err
			}
		}
		places, err := places(ctx, c, now)
		if err != nil {
			return err
		}
		plan := decide(places)
		change := func(id, host, query string, args ...any) (bool, error) {
			result, err := c.exec(ctx, query+` where id = ? and host = '' and ended_at = 0 and (id = ? or lease_until <= ?)`, append(args, id, self, millis(now))...)
			if err != nil {
				return false, err
			}
			if n, err := result.RowsAffected(); n == 0 || err != nil {
				return false, err
			}
			if id == self || s.enqueue == nil {
				return true, nil
			}
			return true, s.enqueue(ctx, tx, Tick{Mission: id, Host: host, At: now})
		}
		for _, id := range plan.Begin {
			done, err := change(id, host, `update missions set host = ?, position = 0, due_at = ?`, host, millis(now))
			if err != nil {
				return err
			}
			if done {
				begun = append(begun, id)
			}
		}
		for id, position := range plan.Tell {
			if _, err := change(id, "", `update missions set position = ?, due_at = ?`, position, millis(now)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	return begun, nil
}

// Waiting says how many missions wait for a place, and how many have one on a host.
func (s *Store) Waiting(ctx context.Context, host string) (waiting, here int, err error) {
	err = s.row(ctx, `select coalesce(sum(case when host = '' then 1 else 0 end), 0), coalesce(sum(case when host = ? then 1 else 0 end), 0) from missions where `+placed, host).Scan(&waiting, &here)
	if err != nil {
		return 0, 0, fmt.Errorf("waiting missions: %w", err)
	}
	return waiting, here, nil
}

// placed are the missions that take up a place or wait for one. The thousands that wait for a review do neither.
const placed = `ended_at = 0 and (host <> '' or ready_at > 0) and step <> 'waiting' and (host <> '' or step = 'queue')`

func places(ctx context.Context, c conn, now time.Time) (found []Place, err error) {
	rows, err := c.query(ctx, `select id, installation_id, repository_id, host, ready_at, position, lease_until from missions where `+placed)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p Place
		var ready, leased int64
		if err := rows.Scan(&p.ID, &p.InstallationID, &p.RepositoryID, &p.Host, &ready, &p.Position, &leased); err != nil {
			return nil, err
		}
		p.ReadyAt, p.Busy = fromMillis(ready), leased > millis(now)
		found = append(found, p)
	}
	return found, rows.Err()
}
