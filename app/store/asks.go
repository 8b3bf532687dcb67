package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Ask is one person's wish for another round of work on a mission's pull request.
type Ask struct {
	Key         string
	Mission     string
	Login       string
	Review      int64 // id of the review; 0: a command or a button
	Instruction string
	Head        string // of the pull request when it was asked
	HandsBack   bool   // the bot may build on commits of others up to Head
	At          time.Time
	Round       int // the attempt that took it; 0: open, -1: waits for somebody to hand the branch back
}

// held is the round of asks that wait until the branch is handed back.
const held = -1

// Ask records a wish, once for its key, and has the mission looked at. One that is open yet may become a hand-back.
func (s *Store) Ask(ctx context.Context, a Ask, now time.Time) error {
	err := s.due(ctx, Tick{Mission: a.Mission, At: now}, func(c conn) error {
		if _, err := c.exec(ctx, `insert into asks (key, mission, login, review, instruction, head, hands_back, at, round) values (?, ?, ?, ?, ?, ?, ?, ?, 0)
			on conflict (key) do update set instruction = excluded.instruction, head = excluded.head, hands_back = 1, round = 0
			where asks.round <= 0 and excluded.hands_back = 1`,
			a.Key, a.Mission, a.Login, a.Review, a.Instruction, a.Head, number(a.HandsBack), millis(a.At)); err != nil {
			return err
		}
		_, err := c.exec(ctx, `update missions set due_at = ? where id = ? and ended_at = 0 and due_at = 0`, millis(now), a.Mission)
		return err
	})
	if err != nil {
		return fmt.Errorf("ask %s: %w", a.Key, err)
	}
	return nil
}

// Asks gives what was asked of a mission, the oldest first: of one round, or what no round has taken where round is 0.
func (s *Store) Asks(ctx context.Context, mission string, round int) (asks []Ask, err error) {
	where := `round = ?`
	if round == 0 {
		where = `round <= ?`
	}
	rows, err := s.query(ctx, `select key, mission, login, review, instruction, head, hands_back, at, round from asks
		where mission = ? and `+where+` order by at, key`, mission, round)
	if err != nil {
		return nil, fmt.Errorf("asks of %s: %w", mission, err)
	}
	defer rows.Close()
	for rows.Next() {
		var a Ask
		var at, back int64
		if err := rows.Scan(&a.Key, &a.Mission, &a.Login, &a.Review, &a.Instruction, &a.Head, &back, &at, &a.Round); err != nil {
			return nil, fmt.Errorf("asks of %s: %w", mission, err)
		}
		a.HandsBack, a.At = back == 1, fromMillis(at)
		asks = append(asks, a)
	}
	return asks, rows.Err()
}

// HoldAsks has wishes wait until somebody hands the branch back. What was asked since they were read is open still, also where it is
// one of them that has become a hand-back.
func (s *Store) HoldAsks(ctx context.Context, asks []Ask) error {
	for _, a := range asks {
		if _, err := s.exec(ctx, `update asks set round = ? where key = ? and round = 0 and hands_back = ?`, held, a.Key, number(a.HandsBack)); err != nil {
			return fmt.Errorf("ask %s: %w", a.Key, err)
		}
	}
	return nil
}

// SettleAsks gives the open wishes of a mission to a round, the held ones too.
func (s *Store) SettleAsks(ctx context.Context, mission string, round int) error {
	_, err := s.exec(ctx, `update asks set round = ? where mission = ? and round <= 0`, round, mission)
	if err != nil {
		return fmt.Errorf("asks of %s: %w", mission, err)
	}
	return nil
}

// WakeAsked has the missions looked at that wait although something is asked of them.
func (s *Store) WakeAsked(ctx context.Context, now time.Time) error {
	asked, err := s.missions(ctx, `where ended_at = 0 and due_at = 0 and id in (select mission from asks where round = 0)`)
	for _, m := range asked {
		err = errors.Join(err, s.wake(ctx, m.ID, now, `update missions set due_at = ? where id = ? and ended_at = 0`, millis(now), m.ID))
	}
	return err
}

// number is a truth as both databases keep it.
func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
