package store

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestAwayIsAFileThatIsLocked by another program, for longer than is waited for.
func TestAwayIsAFileThatIsLocked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	other, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	held, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unlease(t.Context(), "m-abcde", "h/1"); !Away(err) {
		t.Errorf("writing while another has the file: %v", err)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Unlease(t.Context(), "m-abcde", "h/1"); err != nil {
		t.Errorf("writing after that: %v", err)
	}
}

// TestAwayIsASessionThatIsEnded by the server, in the middle of a transaction; the next call has another one.
func TestAwayIsASessionThatIsEnded(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	err = s.inTx(t.Context(), func(c conn, _ *sql.Tx) error {
		var pid int
		if err := c.row(t.Context(), `select pg_backend_pid()`).Scan(&pid); err != nil {
			return err
		}
		if _, err := s.exec(t.Context(), `select pg_terminate_backend(?)`, pid); err != nil {
			t.Error(err)
		}
		_, err := c.exec(t.Context(), `update missions set lease = ''`)
		return err
	})
	if !Away(err) {
		t.Errorf("a session that was ended: %v", err)
	}
	if err := s.Unlease(t.Context(), "m-abcde", "h/1"); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestAwayIsNotAnyError(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	_, wrong := s.exec(t.Context(), `select nonsense`)
	for _, err := range []error{nil, errors.New("who knows"), wrong, fmt.Errorf("missions: %w", &pgconn.PgError{Code: "23505"}), sql.ErrNoRows, ErrLeased} {
		if Away(err) {
			t.Errorf("%v", err)
		}
	}
	// A server that starts says 57P03, one with a standby in front 25006, one that nobody listens for nothing at all.
	_, refused := Open(t.Context(), "postgres://test@127.0.0.1:1/none?sslmode=disable")
	for _, err := range []error{&pgconn.PgError{Code: "57P03"}, &pgconn.PgError{Code: "25006"}, &pgconn.PgError{Code: "40001"}, refused} {
		if !Away(fmt.Errorf("missions: %w", err)) {
			t.Errorf("not away: %v", err)
		}
	}
}
