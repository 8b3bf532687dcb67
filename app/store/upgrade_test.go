package store

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// files are the migrations, the oldest first.
func files(t *testing.T) (names, texts []string) {
	t.Helper()
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := migrations.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return names, texts
}

// TestMigrationsOnlyAdd: bots are replaced one by one, and those of the version before work on beside the first that has migrated.
// So there are new tables, indexes, and columns with a default; nothing is renamed, narrowed or taken away.
func TestMigrationsOnlyAdd(t *testing.T) {
	t.Parallel()
	adds := regexp.MustCompile(`^(create table \w+ \(|create index |create unique index |alter table \w+ add column \w+ +\w+ +not null default )`)
	unique := regexp.MustCompile(`^create unique index \w+ on (\w+)`)
	names, texts := files(t)
	for i, text := range texts {
		for _, statement := range strings.Split(regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(text, ""), ";") {
			statement = strings.TrimSpace(statement)
			if statement == "" {
				continue
			}
			if !adds.MatchString(statement) {
				t.Errorf("%s does more than add: %s", names[i], statement)
			}
			if on := unique.FindStringSubmatch(statement); on != nil && !strings.Contains(text, "create table "+on[1]+" ") {
				t.Errorf("%s forbids what the version before may write: %s", names[i], statement)
			}
		}
	}
}

// older makes the database of the version before: all migrations but the last, and a mission.
func older(t *testing.T, address string) {
	t.Helper()
	pool, d, err := connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	c := conn{dialect: d, db: pool}
	run := func(query string, args ...any) {
		t.Helper()
		if _, err := c.exec(t.Context(), query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	_, texts := files(t)
	run("create table schema_version (version " + d.types.Replace("INT64") + " not null)")
	for i, text := range texts[:len(texts)-1] {
		run(d.types.Replace(text))
		run("insert into schema_version (version) values (?)", i+1)
	}
	run(`insert into missions (id, kind, installation_id, repository_id, owner, name, number, title, task, trigger_key, requester, requester_id,
		instruction, triggered_at, base_branch, base, head, only_check, policy, policy_source, step, attempt, run, want, want_by, next_head,
		outcome, message, pull, pull_url, branch, comment_id, comment_digest, failures, due_at, created_at, updated_at, ended_at)
		values ('m-older', 'issue', 1, 42, 'acme', 'calc', 7, 'Sum', '{}', 'delivery:1', 'octavia', 5, '', 0, 'main', '', '', '', '', '',
		'take', 1, 'r-older-1', '', '', '', '', '', 0, '', '', 0, '', 0, 1, 1, 1, 0)`)
}

// TestUpgrade opens a database of the version before, with two bots at once where two can be.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return t.TempDir() + "/s.db" },
		"postgres": server.Database,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := address(t)
			older(t, at)
			bots := 1
			if IsPostgres(at) {
				bots = 3
			} else if names, _ := files(t); os.WriteFile(fmt.Sprintf("%s.before-schema-%d.part", at, len(names)), []byte("what a crash has left"), 0o600) != nil {
				t.Fatal("no file beside the database")
			}
			var wg sync.WaitGroup
			for range bots {
				wg.Go(func() {
					s, err := Open(t.Context(), at)
					if err != nil {
						t.Error(err)
						return
					}
					defer s.Close()
					if m, err := s.Mission(t.Context(), "m-older"); err != nil || m.Title != "Sum" {
						t.Errorf("the mission: %+v, %v", m, err)
					}
				})
			}
			wg.Wait()
			if !IsPostgres(at) {
				isBackup(t, at)
			}
		})
	}
}

// TestFileIsItsOwnersAlone looks at the modes of a database in use, with SQLite's log and index: it holds text of private repositories.
func TestFileIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bot.db")
	s, err := Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{file, file + "-wal", file + "-shm"} {
		isPrivate(t, name)
	}
}

func isPrivate(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has the mode %v", file, info.Mode())
	}
}

// isBackup looks for the copy of a SQLite file as it was before its schema changed.
func isBackup(t *testing.T, file string) {
	t.Helper()
	names, _ := files(t)
	copied := fmt.Sprintf("%s.before-schema-%d", file, len(names))
	isPrivate(t, copied)
	pool, d, err := connect(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := &Store{conn: conn{dialect: d, db: pool}, pool: pool}
	version, err := s.schemaVersion(t.Context(), s.conn)
	if err != nil || version != len(names)-1 {
		t.Errorf("the backup has schema %d, %v; want %d", version, err, len(names)-1)
	}
	var missions int
	if err := s.row(t.Context(), "select count(*) from missions").Scan(&missions); err != nil || missions != 1 {
		t.Errorf("the backup has %d missions, %v", missions, err)
	}
}
