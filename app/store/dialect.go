package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

// dialect is where the two databases differ. Everything else is one text for both.
type dialect struct {
	driver string
	types  *strings.Replacer // of the migrations, and of ranges of bytes
	rebind func(query string) string
}

var sqlite = dialect{
	driver: "sqlite",
	types:  strings.NewReplacer("INT64", "integer", "BLOB", "blob", "SERIAL", "integer primary key", "STRICT", "strict", "BYTEWISE", "collate binary"),
	rebind: func(query string) string { return query },
}

var pg = dialect{
	driver: "pgx",
	types:  strings.NewReplacer("INT64", "bigint", "BLOB", "bytea", "SERIAL", "bigint generated always as identity primary key", " STRICT", "", "BYTEWISE", `collate "C"`),
	rebind: numbered,
}

// numbered turns each ? into $1, $2, … There is none in a text of ours.
func numbered(query string) string {
	var b strings.Builder
	n := 0
	for _, c := range query {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// connect opens an address: postgres://… or the path of a SQLite file.
func connect(address string) (*sql.DB, dialect, error) {
	if IsPostgres(address) {
		db, err := sql.Open(pg.driver, address)
		if err == nil {
			db.SetMaxOpenConns(20)
		}
		return db, pg, err
	}
	if err := makePrivate(address); err != nil {
		return nil, sqlite, err
	}
	// FULL: a delivery that was answered must survive a power cut. One connection: SQLite has one writer anyway, and
	// waiting in Go is fair where waiting on its lock is not. Pages of 16 KiB, in a new file, hold a delivery in two where the
	// usual 4 KiB take six: storing one costs half. The log is copied into the file at 8 MiB instead of at 4. Another program that
	// holds the file is waited for half as long as GitHub waits for an answer, so that GitHub hears that a delivery was not stored.
	values := url.Values{"_pragma": {
		"busy_timeout(5000)", "page_size(16384)", "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(500)", "foreign_keys(ON)",
	}, "_txlock": {"immediate"}}
	db, err := sql.Open(sqlite.driver, "file:"+(&url.URL{Path: address}).EscapedPath()+"?"+values.Encode())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, sqlite, err
}

// makePrivate makes a missing SQLite file for its owner alone, since it holds what people wrote in private repositories, and the
// state directory of a bot that runs as root lets every user pass. SQLite gives its log and its index the mode of the file.
func makePrivate(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // to open and close it here would end the locks that this process has on it
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// IsPostgres says whether an address is that of a PostgreSQL database.
func IsPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// conn is a *sql.DB or a *sql.Tx that takes queries with ? on both databases.
type conn struct {
	dialect
	db interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
}

func (c conn) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return c.db.ExecContext(ctx, c.rebind(query), texts(args)...)
}

func (c conn) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return c.db.QueryContext(ctx, c.rebind(query), texts(args)...)
}

func (c conn) row(ctx context.Context, query string, args ...any) *sql.Row {
	return c.db.QueryRowContext(ctx, c.rebind(query), texts(args)...)
}

// texts puts U+FFFD where PostgreSQL would refuse the whole statement: an error of git says the name of a file as it is, and neither
// a byte that is no UTF-8 nor a zero one can be in a text there.
func texts(args []any) []any {
	for i, arg := range args {
		if s, ok := arg.(string); ok && (!utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0) {
			args[i] = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
		}
	}
	return args
}

// isTaken says whether an insert failed because a unique key is taken, and whether it is the primary one.
func isTaken(err error) (taken, primary bool) {
	var refused *pgconn.PgError
	if errors.As(err, &refused) { // unique_violation: https://www.postgresql.org/docs/current/errcodes-appendix.html
		return refused.Code == "23505", refused.Code == "23505" && strings.HasSuffix(refused.ConstraintName, "_pkey")
	}
	taken = err != nil && strings.Contains(err.Error(), "UNIQUE constraint failed")
	return taken, taken && strings.Contains(err.Error(), "missions.id")
}

// backup keeps a copy of a SQLite file before its schema changes. It has its name when it is whole: what a crash has left of one is
// made anew.
func backup(ctx context.Context, c conn, file string, version int) error {
	if c.driver != sqlite.driver || version == 0 {
		return nil
	}
	copied := fmt.Sprintf("%s.before-schema-%d", file, version+1)
	if _, err := os.Stat(copied); err == nil {
		return nil
	}
	part := copied + ".part"
	err := os.Remove(part)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = makePrivate(part)
	}
	if err == nil {
		_, err = c.exec(ctx, "vacuum into ?", part) // which takes a file that is empty
	}
	if err == nil {
		err = os.Rename(part, copied)
	}
	if err != nil {
		return fmt.Errorf("backup %s: %w", copied, err)
	}
	return nil
}
