package store

import (
	"context"
	"fmt"
	"time"
)

// Approve records that a person approved the head of a mission's pull request by a comment.
func (s *Store) Approve(ctx context.Context, mission, head, login string, now time.Time) error {
	_, err := s.exec(ctx, `insert into approvals (mission, head, login, at) values (?, ?, ?, ?) on conflict (mission, head, login) do nothing`,
		mission, head, login, millis(now))
	if err != nil {
		return fmt.Errorf("approval of %s: %w", mission, err)
	}
	return nil
}

// Approvals gives the people who approved a head, in the order in which they did.
func (s *Store) Approvals(ctx context.Context, mission, head string) (logins []string, err error) {
	rows, err := s.query(ctx, `select login from approvals where mission = ? and head = ? order by at, login`, mission, head)
	if err != nil {
		return nil, fmt.Errorf("approvals of %s: %w", mission, err)
	}
	defer rows.Close()
	for rows.Next() {
		var login string
		if err := rows.Scan(&login); err != nil {
			return nil, fmt.Errorf("approvals of %s: %w", mission, err)
		}
		logins = append(logins, login)
	}
	return logins, rows.Err()
}
