package store

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	modernc "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

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
