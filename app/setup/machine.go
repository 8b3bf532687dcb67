package setup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

func gitVersion() Check {
	g, err := git.New(git.Options{})
	var version string
	if err == nil {
		version, err = g.Version()
	}
	if err != nil {
		return Check{"git", Fail, err.Error(), "install git: apt-get install git"}
	}
	check := Check{"git", OK, version, ""}
	if !fixed(version) {
		// Not a warning: the bot never runs the clone of submodules that these need, and distributions mend their old
		// versions without changing the number.
		check.Detail += "; upstream mended CVE-2025-48384 and -48385 in 2.43.7 to 2.50.1, see whether your distribution has"
	}
	return check
}

// fixed says whether a version of git has the fixes of July 2025 by its number:
// https://github.com/git/git/security/advisories/GHSA-vwqx-4fm8-6qc9
func fixed(version string) bool {
	var major, minor, patch int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	least, maintained := map[int]int{43: 7, 44: 4, 45: 4, 46: 4, 47: 3, 48: 2, 49: 1, 50: 1}[minor]
	return major > 2 || (major == 2 && (minor > 50 || (maintained && patch >= least)))
}

// Free space below which a run is likely to fail, and below which nothing works. A run may grow by the disk limit, 4 GiB
// by default, and the store of a large repository takes about as much.
const (
	spaceWarn = 8 << 30
	spaceFail = 512 << 20
)

// The kinds of file systems on which the state does not do well: https://man7.org/linux/man-pages/man2/statfs.2.html
var unsuited = map[int64]string{
	0x6969:                     "NFS: locks and durable writes cannot be relied on",
	0xfe534d42:                 "SMB: locks and modes cannot be relied on",
	0x517b:                     "SMB: locks and modes cannot be relied on",
	unix.TMPFS_MAGIC:           "tmpfs: the state is gone after a restart of the machine",
	unix.RAMFS_MAGIC:           "ramfs: the state is gone after a restart of the machine",
	unix.V9FS_MAGIC:            "9p: locks cannot be relied on",
	unix.OVERLAYFS_SUPER_MAGIC: "an overlay, such as the root of a container: the state goes with the container",
	unix.MSDOS_SUPER_MAGIC:     "FAT: it knows no modes and no links",
}

// stateDir looks at the directory, or at the nearest one above it that exists: the doctor makes none.
func stateDir(dir string) []Check {
	if !filepath.IsAbs(dir) {
		return nil // the settings say so already
	}
	there := dir
	for {
		info, err := os.Stat(there)
		if err == nil && !info.IsDir() {
			return []Check{{"state directory", Fail, there + " is not a directory", "set SANDPIPER_STATE_DIR to a directory"}}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) || there == "/" {
			return []Check{{"state directory", Fail, err.Error(), "give it to the bot's user, or set SANDPIPER_STATE_DIR"}}
		}
		there = filepath.Dir(there)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, there, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return []Check{{"state directory", Fail, fmt.Sprintf("%s cannot be written: %v", there, err), "give it to the bot's user, or set SANDPIPER_STATE_DIR"}}
	}
	check := Check{"state directory", OK, dir, ""}
	if there != dir {
		check.Detail += " (will be made)"
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(there, &fs); err != nil {
		return []Check{check, {"free space", Skip, err.Error(), ""}}
	}
	if why := unsuited[int64(fs.Type)]; why != "" {
		check.Status, check.Detail, check.Fix = Warn, check.Detail+" is on "+why, "set SANDPIPER_STATE_DIR to a directory on a local disk"
	}
	free := fs.Bavail * uint64(fs.Bsize)
	space := Check{"free space", OK, fmt.Sprintf("%.1f GiB; commands leave %d MiB of it to the bot", float64(free)/(1<<30), jail.Reserve(int64(fs.Blocks)*fs.Bsize)>>20), ""}
	switch {
	case free < spaceFail:
		space.Status, space.Fix = Fail, "make room, or set SANDPIPER_STATE_DIR to a larger disk"
	case free < spaceWarn:
		space.Status, space.Fix = Warn, "one run may take 4 GiB; make room, or set SANDPIPER_STATE_DIR to a larger disk"
	}
	return []Check{check, space}
}

// database reads the database without opening it as the bot does, which would bring it to a newer schema.
func database(ctx context.Context, file string) Check {
	if strings.HasPrefix(file, "postgres") {
		return server(ctx, file)
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return Check{"database", OK, file + " (will be made)", ""}
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(2000)")
	if err != nil {
		return Check{"database", Fail, err.Error(), ""}
	}
	defer db.Close()
	var answer string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&answer); err != nil {
		return Check{"database", Fail, fmt.Sprintf("%s: %v", file, err), "give the file to the bot's user; if it is damaged, put back a backup"}
	}
	if answer != "ok" {
		return Check{"database", Fail, fmt.Sprintf("%s is damaged: %s", file, answer), "stop the bot and put back a backup"}
	}
	return Check{"database", OK, file, ""}
}

// server asks a PostgreSQL server who it is. Its address is not repeated: it may hold a password.
func server(ctx context.Context, address string) Check {
	const fix = "see that the server runs, that this machine reaches it, and that user, password and database of DATABASE_URL are right"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	db, err := sql.Open("pgx", address)
	if err != nil {
		return Check{"database", Fail, "DATABASE_URL cannot be read", fix}
	}
	defer db.Close()
	var version string
	var can bool
	if err := db.QueryRowContext(ctx, "select current_setting('server_version'), has_schema_privilege(current_schema(), 'create')").Scan(&version, &can); err != nil {
		return Check{"database", Fail, "PostgreSQL does not answer: " + withoutAddress(err), fix}
	}
	if !can {
		return Check{"database", Fail, "PostgreSQL " + version + " does not let this user make tables", "grant create on the schema to the user, or make the user its owner"}
	}
	return Check{"database", OK, "PostgreSQL " + version, ""}
}

// withoutAddress is the last part of an error of the driver, whose first part names user and database.
func withoutAddress(err error) string {
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+len(": "):]
}
