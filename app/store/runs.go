package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Run is one attempt at a mission. The JSON columns hold what each step of it found.
type Run struct {
	ID        string
	Mission   string
	Attempt   int
	Base      string
	Result    string
	Agent     string
	Exit      string // sandbox.Exit
	Receipt   string // agent.Receipt
	Changes   string // []sandbox.Change
	Checks    string // []checks.Result
	Offer     string // what of it would be promoted
	CreatedAt time.Time
	EndedAt   time.Time
}

// SaveRun writes a run, new or changed.
func (s *Store) SaveRun(ctx context.Context, r *Run) error {
	_, err := s.exec(ctx, `insert into runs (id, mission, attempt, base, result, agent, exit, receipt, changes, checks, offer, created_at, ended_at)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		on conflict (id) do update set base = excluded.base, result = excluded.result, agent = excluded.agent, exit = excluded.exit,
			receipt = excluded.receipt, changes = excluded.changes, checks = excluded.checks, offer = excluded.offer, ended_at = excluded.ended_at`,
		r.ID, r.Mission, r.Attempt, r.Base, r.Result, r.Agent, r.Exit, r.Receipt, r.Changes, r.Checks, r.Offer, millis(r.CreatedAt), millis(r.EndedAt))
	if err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	return nil
}

// Run reads one run.
func (s *Store) Run(ctx context.Context, id string) (*Run, error) {
	r := new(Run)
	var created, ended int64
	err := s.row(ctx, `select id, mission, attempt, base, result, agent, exit, receipt, changes, checks, offer, created_at, ended_at from runs where id = ?`, id).
		Scan(&r.ID, &r.Mission, &r.Attempt, &r.Base, &r.Result, &r.Agent, &r.Exit, &r.Receipt, &r.Changes, &r.Checks, &r.Offer, &created, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	r.CreatedAt, r.EndedAt = fromMillis(created), fromMillis(ended)
	return r, nil
}

// Promotion is what was promoted of a run: the manifest says exactly what.
type Promotion struct {
	Run, Mission, Commit, Branch string
	Pull                         int
	Manifest, Digest             string
	CreatedAt                    time.Time
}

// SavePromotion writes what was promoted of a run last; the audit chain has all that was.
func (s *Store) SavePromotion(ctx context.Context, p Promotion) error {
	_, err := s.exec(ctx, `insert into promotions (run, mission, commit_id, branch, pull, manifest, digest, created_at)
		values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (run) do update set commit_id = excluded.commit_id,
			branch = excluded.branch, pull = excluded.pull, manifest = excluded.manifest, digest = excluded.digest`,
		p.Run, p.Mission, p.Commit, p.Branch, p.Pull, p.Manifest, p.Digest, millis(p.CreatedAt))
	if err != nil {
		return fmt.Errorf("promotion of %s: %w", p.Run, err)
	}
	return nil
}

// Promotion reads the promotion of a run.
func (s *Store) Promotion(ctx context.Context, run string) (Promotion, error) {
	var p Promotion
	var created int64
	err := s.row(ctx, `select run, mission, commit_id, branch, pull, manifest, digest, created_at from promotions where run = ?`, run).
		Scan(&p.Run, &p.Mission, &p.Commit, &p.Branch, &p.Pull, &p.Manifest, &p.Digest, &created)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNone
	}
	if err != nil {
		return p, fmt.Errorf("promotion of %s: %w", run, err)
	}
	p.CreatedAt = fromMillis(created)
	return p, nil
}

// Effect says whether something was done at GitHub already, and the id that GitHub gave it.
func (s *Store) Effect(ctx context.Context, key string) (id int64, done bool, err error) {
	err = s.row(ctx, `select github_id from effects where key = ?`, key).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("effect %s: %w", key, err)
	}
	return id, true, nil
}

// AddEffect records that something was done.
func (s *Store) AddEffect(ctx context.Context, key string, id int64, now time.Time) error {
	if _, err := s.exec(ctx, `insert into effects (key, github_id, at) values (?, ?, ?) on conflict (key) do nothing`, key, id, millis(now)); err != nil {
		return fmt.Errorf("effect %s: %w", key, err)
	}
	return nil
}

// DropEffect forgets what was done, because it was undone since.
func (s *Store) DropEffect(ctx context.Context, key string) error {
	if _, err := s.exec(ctx, `delete from effects where key = ?`, key); err != nil {
		return fmt.Errorf("effect %s: %w", key, err)
	}
	return nil
}

// Effects gives the keys, in order, of what was done under keys that begin so.
func (s *Store) Effects(ctx context.Context, begin string) (keys []string, err error) {
	rows, err := s.query(ctx, s.types.Replace(`select key from effects where `+keyBegins+` order by key BYTEWISE`), begin, after(begin))
	if err != nil {
		return nil, fmt.Errorf("effects %s: %w", begin, err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, fmt.Errorf("effects %s: %w", begin, err)
		}
		keys = append(keys, key)
	}
	return keys, rows.Err()
}

// EffectsSince counts what was done since a moment under keys that begin so.
func (s *Store) EffectsSince(ctx context.Context, begin string, since time.Time) (n int, err error) {
	if err := s.row(ctx, s.types.Replace(`select count(*) from effects where `+keyBegins+` and at >= ?`), begin, after(begin), millis(since)).Scan(&n); err != nil {
		return 0, fmt.Errorf("effects %s: %w", begin, err)
	}
	return n, nil
}

// keyBegins is a range that the index effects_begin answers, which it does not for "like".
const keyBegins = `key BYTEWISE >= ? and key BYTEWISE < ?`

// after is the first key behind all that begin so. What they begin with ends in ASCII.
func after(begin string) string {
	last := len(begin) - 1
	return begin[:last] + string(rune(begin[last]+1))
}

// ForgetEffects removes what was done before a time, and before any mission that is still open began.
func (s *Store) ForgetEffects(ctx context.Context, before time.Time) (int64, error) {
	result, err := s.exec(ctx, `delete from effects where at < ? and at < (select coalesce(min(created_at), ?) from missions where ended_at = 0)`,
		millis(before), millis(before))
	if err != nil {
		return 0, fmt.Errorf("forget effects: %w", err)
	}
	return result.RowsAffected()
}
