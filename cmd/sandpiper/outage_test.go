package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/fixtures/postgres"
)

// outage takes the database away from its bots, and gives it back.
type outage func()

// newServerStorm is a storm on a PostgreSQL server of its own: sessions are ended by its administrator, and it crashes.
func newServerStorm(t *testing.T, bots int) *storm {
	t.Helper()
	var server postgres.Server
	t.Cleanup(server.Stop)
	url := server.Database(t)
	s := newStorm(t, bots, url)
	s.outages = []outage{
		func() { server.Crash(t, time.Duration(s.rng.Int64N(int64(3*time.Second)))) },
		func() { endSessions(t, url) },
	}
	return s
}

func endSessions(t *testing.T, url string) {
	t.Helper()
	db := must1(sql.Open("pgx", url))(t)
	defer db.Close()
	must1(db.ExecContext(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"))(t)
}

// newFileStorm is a storm on a SQLite file: another program holds it for longer than the bot waits for it (5 s), and its disk is full.
func newFileStorm(t *testing.T) *storm {
	t.Helper()
	dir, small := smallDisk(t)
	file := filepath.Join(dir, "sandpiper.db")
	s := newStorm(t, 1, "sqlite:"+file)
	s.outages = []outage{func() {
		db := must1(sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(60000)"))(t)
		defer db.Close()
		tx := must1(db.BeginTx(t.Context(), nil))(t)
		pause := time.NewTimer(6 * time.Second)
		<-pause.C
		must(t, tx.Rollback())
	}}
	if small {
		s.outages = append(s.outages, func() {
			filler := filepath.Join(dir, "filler")
			if err := os.WriteFile(filler, make([]byte, smallDiskSize), 0o600); err == nil {
				t.Error("it did not fill the disk")
			}
			s.upTo(3 * time.Second)
			must(t, os.Remove(filler))
		})
	}
	return s
}

const smallDiskSize = 256 << 20

// smallDisk is a directory on a disk of its own, where one can be made: as root.
func smallDisk(t *testing.T) (dir string, small bool) {
	t.Helper()
	dir = stateParent(t)
	if os.Geteuid() != 0 || syscall.Mount("small", dir, "tmpfs", 0, "size=256m") != nil {
		return dir, false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}
