package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// AuditRow is one record of the audit chain. The chain itself is app/audit's: here it is a text with a number.
type AuditRow struct {
	Seq                int64
	At                 time.Time
	Kind, Mission, Run string
	Hash               string // of Record
	Record             string
}

// AppendAudit appends the record that next makes of the last one (the zero row where there is none). Only one process at a time
// gets so far, on either database, so that no two records follow the same one.
func (s *Store) AppendAudit(ctx context.Context, next func(last AuditRow) (AuditRow, error)) (row AuditRow, err error) {
	err = s.inTx(ctx, func(tx conn, _ *sql.Tx) error { // on SQLite a transaction begins with the lock for writing
		if s.Postgres() {
			if _, err := tx.exec(ctx, "select pg_advisory_xact_lock(7306)"); err != nil {
				return err
			}
		}
		last, err := scanAudit(tx.row(ctx, `select seq, at, kind, mission, run, hash, record from audit order by seq desc limit 1`))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if row, err = next(last); err != nil {
			return err
		}
		_, err = tx.exec(ctx, `insert into audit (seq, at, kind, mission, run, hash, record) values (?, ?, ?, ?, ?, ?, ?)`,
			row.Seq, millis(row.At), row.Kind, row.Mission, row.Run, row.Hash, row.Record)
		return err
	})
	if err != nil {
		return row, fmt.Errorf("audit record: %w", err)
	}
	return row, nil
}

// Audit reads records after a number, in order, at most so many.
func (s *Store) Audit(ctx context.Context, after int64, most int) ([]AuditRow, error) {
	rows, err := s.query(ctx, `select seq, at, kind, mission, run, hash, record from audit where seq > ? order by seq limit ?`, after, most)
	if err != nil {
		return nil, fmt.Errorf("audit records: %w", err)
	}
	defer rows.Close()
	var found []AuditRow
	for rows.Next() {
		row, err := scanAudit(rows)
		if err != nil {
			return nil, fmt.Errorf("audit records: %w", err)
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

func scanAudit(row interface{ Scan(...any) error }) (AuditRow, error) {
	var r AuditRow
	var at int64
	err := row.Scan(&r.Seq, &at, &r.Kind, &r.Mission, &r.Run, &r.Hash, &r.Record)
	r.At = fromMillis(at)
	return r, err
}
