package store

import (
	"context"
	"fmt"
	"time"
)

// Baseline is what a check did on a commit of a base branch. Key names the branch, the check and all that it runs with.
type Baseline struct {
	Repository  int64
	Key         string
	Commit      string
	CommittedAt time.Time
	At          time.Time // when it was run
	Seen        string    // checks.Seen
}

// SaveBaseline writes what a check did; on a commit that is known, anew. What was run in the repository 90 days before is forgotten.
func (s *Store) SaveBaseline(ctx context.Context, b Baseline) error {
	_, err := s.exec(ctx, `insert into baselines (repository, check_key, commit_id, committed_at, at, seen) values (?, ?, ?, ?, ?, ?)
		on conflict (repository, check_key, commit_id) do update set at = excluded.at, seen = excluded.seen`,
		b.Repository, b.Key, b.Commit, millis(b.CommittedAt), millis(b.At), b.Seen)
	if err == nil {
		_, err = s.exec(ctx, `delete from baselines where repository = ? and at < ?`, b.Repository, millis(b.At.AddDate(0, 0, -90)))
	}
	if err != nil {
		return fmt.Errorf("baseline of %.7s: %w", b.Commit, err)
	}
	return nil
}

// Baselines reads what a check did on commits up to a time, at most 50, the newest commit first.
func (s *Store) Baselines(ctx context.Context, repository int64, key string, committed time.Time) (list []Baseline, err error) {
	rows, err := s.query(ctx, `select commit_id, committed_at, at, seen from baselines where repository = ? and check_key = ? and committed_at <= ?
		order by committed_at desc, at desc limit 50`, repository, key, millis(committed))
	if err != nil {
		return nil, fmt.Errorf("baselines: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		b := Baseline{Repository: repository, Key: key}
		var of, at int64
		if err := rows.Scan(&b.Commit, &of, &at, &b.Seen); err != nil {
			return nil, fmt.Errorf("baselines: %w", err)
		}
		b.CommittedAt, b.At = fromMillis(of), fromMillis(at)
		list = append(list, b)
	}
	return list, rows.Err()
}
