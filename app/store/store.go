// Package store is the bot's database: deliveries, missions, runs, promotions, findings and effects at GitHub.
//
// What stands here is the truth of the bot; everything else (processes, comments, branches) is compared with it. It is
// one SQLite file, written durably before anything is answered or begun. The package must not call GitHub, must not
// decide anything, and never holds a credential.
package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is an open database.
type Store struct {
	db *sql.DB
}

// Open opens the database file, makes it where it is missing, and brings it to the newest schema.
// It refuses a file that a newer program has written.
func Open(ctx context.Context, file string) (*Store, error) {
	// FULL: a delivery that was answered must survive a power cut. One connection: SQLite has one writer anyway, and
	// waiting in Go is fair where waiting on its lock is not.
	values := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(10000)", "foreign_keys(ON)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+values.Encode())
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", file, err)
	}
	db.SetMaxOpenConns(1)
	s := &Store{db: db}
	if err := s.migrate(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("database %s: %w", file, err)
	}
	return s, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Ping says whether the database can be read.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	return s.db.QueryRowContext(ctx, "select 1").Scan(&one)
}

func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	var at int
	if err := s.db.QueryRowContext(ctx, "pragma user_version").Scan(&at); err != nil {
		return fmt.Errorf("schema version: %w", err)
	}
	if at > len(files) {
		return fmt.Errorf("schema version %d is newer than this program, which knows %d: use the newer program", at, len(files))
	}
	for _, file := range files[at:] {
		version, err := strconv.Atoi(strings.SplitN(path.Base(file), "_", 2)[0])
		if err != nil {
			return fmt.Errorf("migration %s: %w", file, err)
		}
		text, err := migrations.ReadFile(file)
		if err != nil {
			return err
		}
		if err := s.inTx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "pragma user_version = "+strconv.Itoa(version))
			return err
		}); err != nil {
			return fmt.Errorf("migration %s: %w", file, err)
		}
	}
	return nil
}

func (s *Store) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
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
