// Package store is the bot's database: deliveries, missions, runs, promotions, findings and effects at GitHub.
//
// What stands here is the truth of the bot; everything else (jobs in the queue, processes, comments, branches) is compared
// with it. It is a SQLite file or a PostgreSQL database, with the same queries, written durably before anything is answered
// or begun. The package must not call GitHub, must not decide anything, and never holds a credential.
package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is an open database.
type Store struct {
	conn
	pool    *sql.DB
	intake  *intake
	enqueue func(ctx context.Context, tx *sql.Tx, tick Tick) error
	pinged  struct {
		sync.Mutex
		at  time.Time
		err error
	}
}

// Tick is a mission that is due.
type Tick struct {
	Mission string
	Host    string // whose sandbox it has; "" where it has none
	At      time.Time
}

// Open opens a database, makes its tables where they are missing, and brings it to the newest schema. The address is
// postgres://… or the path of a SQLite file, which is made where it is missing and copied before its schema changes.
// A database that a newer program has written is refused.
func Open(ctx context.Context, address string) (*Store, error) {
	pool, d, err := connect(address)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	s := &Store{conn: conn{dialect: d, db: pool}, pool: pool, intake: newIntake()}
	if err := s.migrate(ctx, address); err != nil {
		pool.Close()
		switch {
		case shut(err):
			return nil, fmt.Errorf("database %s: %w; %s", address, err, shutHint)
		case d.driver == sqlite.driver:
			return nil, fmt.Errorf("database %s: %w", address, err)
		}
		return nil, fmt.Errorf("database: %w", err) // its address may hold a password
	}
	return s, nil
}

// Enqueue has a function told of everything that becomes due, in the transaction that makes it so. It is set once, before
// the store is used by several.
func (s *Store) Enqueue(f func(ctx context.Context, tx *sql.Tx, tick Tick) error) { s.enqueue = f }

// Pool is the database for a library that brings its own tables and works in our transactions.
func (s *Store) Pool() *sql.DB { return s.pool }

// Postgres says which of the two databases it is.
func (s *Store) Postgres() bool { return s.driver == pg.driver }

// Close closes the database.
func (s *Store) Close() error { return s.pool.Close() }

// Ping says whether the database can be written, by a row that is always the same one: a full disk can still be read, while
// every delivery is answered with 500. Anybody may ask, so what was found holds for a second.
func (s *Store) Ping(ctx context.Context) error {
	s.pinged.Lock()
	defer s.pinged.Unlock()
	if time.Since(s.pinged.at) < time.Second {
		return s.pinged.err
	}
	_, err := s.exec(ctx, `insert into duties (name, holder, until) values ('ping', '', 0) on conflict (name) do update set until = duties.until + 1`)
	if err != nil {
		err = fmt.Errorf("it cannot be written: %w", err)
	}
	if ctx.Err() == nil { // else it says more of who asked than of the database
		s.pinged.at, s.pinged.err = time.Now(), err
	}
	return err
}

func (s *Store) migrate(ctx context.Context, address string) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	if _, err := s.exec(ctx, "create table if not exists schema_version (version "+s.types.Replace("INT64")+" not null)"); err != nil {
		// PostgreSQL may refuse one of two that make a table at the same moment, although both say "if not exists".
		if taken, _ := isTaken(err); !taken {
			return fmt.Errorf("schema version: %w", err)
		}
	}
	at, err := s.schemaVersion(ctx, s.conn)
	if err != nil {
		return err
	}
	if at > len(files) {
		return fmt.Errorf("schema version %d is newer than this program, which knows %d: use the newer program", at, len(files))
	}
	if at < len(files) {
		if err := backup(ctx, s.conn, address, at); err != nil {
			return err
		}
	}
	return s.inTx(ctx, func(tx conn, _ *sql.Tx) error {
		if s.Postgres() { // several bots may start at once
			if _, err := tx.exec(ctx, "select pg_advisory_xact_lock(7305)"); err != nil {
				return err
			}
		}
		if at, err = s.schemaVersion(ctx, tx); err != nil {
			return err
		}
		for i, file := range files[min(at, len(files)):] {
			text, err := migrations.ReadFile(file)
			if err != nil {
				return err
			}
			if _, err := tx.exec(ctx, s.types.Replace(string(text))); err != nil {
				return fmt.Errorf("migration %s: %w", file, err)
			}
			if _, err := tx.exec(ctx, "insert into schema_version (version) values (?)", at+i+1); err != nil {
				return fmt.Errorf("migration %s: %w", file, err)
			}
		}
		return nil
	})
}

func (s *Store) schemaVersion(ctx context.Context, c conn) (version int, err error) {
	err = c.row(ctx, "select coalesce(max(version), 0) from schema_version").Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("schema version: %w", err)
	}
	return version, nil
}

func (s *Store) inTx(ctx context.Context, f func(conn, *sql.Tx) error) error {
	tx, err := s.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if err := f(conn{dialect: s.dialect, db: tx}, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// due does something and tells the queue of it, both or neither.
func (s *Store) due(ctx context.Context, tick Tick, f func(conn) error) error {
	return s.inTx(ctx, func(c conn, tx *sql.Tx) error {
		if err := f(c); err != nil || s.enqueue == nil {
			return err
		}
		if err := c.row(ctx, "select host from missions where id = ?", tick.Mission).Scan(&tick.Host); err != nil {
			return fmt.Errorf("mission %s: %w", tick.Mission, err)
		}
		return s.enqueue(ctx, tx, tick)
	})
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
