package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Counts are what an operator wants to know of the database at a glance. They are of all bots that share it.
type Counts struct {
	Open       map[string]int // missions by step
	Ended      map[string]int // missions by outcome
	Findings   map[Finding]int
	Waiting    int       // missions that wait for a place
	WaitsSince time.Time // the one that has waited longest; zero when none waits
	ChecksOpen int       // missions whose Check Runs are not all completed
	Unhandled  int       // deliveries
	Oldest     time.Time // of those; zero when there are none
	Last       time.Time // delivery; zero when none ever came
}

// Finding is a class of findings.
type Finding struct{ Kind, Outcome string }

// Count counts.
func (s *Store) Count(ctx context.Context) (Counts, error) {
	c := Counts{Open: map[string]int{}, Ended: map[string]int{}, Findings: map[Finding]int{}}
	var errs []error
	each := func(query string, add func(a, b string, n int)) {
		errs = append(errs, s.each(ctx, query, add))
	}
	each(`select step, '', count(*) from missions where ended_at = 0 group by step`, func(step, _ string, n int) { c.Open[step] = n })
	each(`select outcome, '', count(*) from missions where ended_at > 0 group by outcome`, func(outcome, _ string, n int) { c.Ended[outcome] = n })
	each(`select kind, outcome, count(*) from findings group by kind, outcome`, func(kind, outcome string, n int) { c.Findings[Finding{kind, outcome}] = n })
	for query, into := range map[string]struct {
		n  *int
		at *time.Time
	}{
		`select count(*), min(ready_at) from missions where ended_at = 0 and step = 'queue' and ready_at > 0`:                            {&c.Waiting, &c.WaitsSince},
		`select count(*), 0 from missions where ended_at = 0 and (kind = 'checks' and step in ('verify', 'archive') or step = 'report')`: {&c.ChecksOpen, nil},
		`select count(*), min(received_at) from deliveries where handled_at = 0`:                                                         {&c.Unhandled, &c.Oldest},
		`select 0, max(received_at) from deliveries`:                                                                                     {nil, &c.Last},
	} {
		var n int
		var at sql.NullInt64
		errs = append(errs, s.row(ctx, query).Scan(&n, &at))
		if into.n != nil {
			*into.n = n
		}
		if into.at != nil {
			*into.at = fromMillis(at.Int64)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("count: %w", err)
	}
	return c, nil
}

func (s *Store) each(ctx context.Context, query string, add func(a, b string, n int)) error {
	rows, err := s.query(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var a, b string
		var n int
		if err := rows.Scan(&a, &b, &n); err != nil {
			return err
		}
		add(a, b, n)
	}
	return rows.Err()
}
