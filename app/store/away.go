package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	modernc "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// shut says whether an error of a SQLite file is of the kind that lasts until somebody changes the owner or the mode of the file, or how
// its file system is mounted. A disk that is full may have room again at any time.
func shut(err error) bool {
	var file *modernc.Error
	return errors.As(err, &file) && (file.Code()&0xff == codes.SQLITE_READONLY || file.Code()&0xff == codes.SQLITE_CANTOPEN)
}

const shutHint = "look at the owner and mode of the file, and of -wal and -shm beside it, and at how its file system is mounted"

// Writable says why a SQLite file cannot be written and will not be. Without its directory such a file opens without a word.
func (s *Store) Writable(ctx context.Context) error {
	if err := s.Ping(ctx); shut(err) {
		return fmt.Errorf("database: %w; %s", err, shutHint)
	}
	return nil
}

// Away says whether an error is that of a database which cannot be used now: the server or the way to it is away, another
// program holds the file, its disk is full. The same call may go well later.
func Away(err error) bool {
	var file *modernc.Error
	if errors.As(err, &file) {
		switch file.Code() & 0xff { // the primary one: https://www.sqlite.org/rescode.html
		case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_READONLY, codes.SQLITE_IOERR, codes.SQLITE_FULL, codes.SQLITE_CANTOPEN:
			return true
		}
		return false
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && len(refused.Code) == 5 {
		switch refused.Code[:2] { // connection, rollback, resources, operator, system: https://www.postgresql.org/docs/current/errcodes-appendix.html
		case "08", "40", "53", "57", "58":
			return true
		}
		return refused.Code == "25006" // read-only: a standby, until it is promoted
	}
	for _, gone := range []error{driver.ErrBadConn, sql.ErrConnDone, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return errors.As(err, new(*pgconn.ConnectError)) || pgconn.SafeToRetry(err)
}
