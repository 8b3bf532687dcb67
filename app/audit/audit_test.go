package audit

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/fixtures/postgres"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

var server postgres.Server

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// onBoth runs a test on each of the two databases.
func onBoth(t *testing.T, test func(t *testing.T, s *store.Store)) {
	t.Helper()
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "audit.db") },
		"postgres": server.Database,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, address(t)))
		})
	}
}

func open(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// written is a log with some records in it.
func written(t *testing.T, s *store.Store, n int) *Log {
	t.Helper()
	l := New(Options{Chain: s, Dir: t.TempDir(), Now: func() time.Time { return noon }})
	for i := range n {
		e := Entry{Kind: "sandbox.created", Mission: "m-1", Run: fmt.Sprintf("r-1-%d", i+1), Data: map[string]any{"b": i, "a": "<é>"}}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func verify(t *testing.T, s *store.Store) *Report {
	t.Helper()
	r, err := VerifyChain(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestChainHolds(t *testing.T) {
	onBoth(t, func(t *testing.T, s *store.Store) {
		l := written(t, s, 4)
		chain := verify(t, s)
		files, err := l.files.Verify()
		if err != nil {
			t.Fatal(err)
		}
		chain.Compare(files)
		files.Compare(chain)
		if len(chain.Problems)+len(files.Problems) > 0 {
			t.Errorf("problems: %q %q", chain.Problems, files.Problems)
		}
		if diff := cmp.Diff(chain.Head, files.Head); diff != "" {
			t.Errorf("heads differ: %s", diff)
		}
		if chain.Records != 4 || chain.First != 1 || chain.Head.Seq != 4 {
			t.Errorf("report %+v", chain)
		}
		rows, err := s.Audit(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"seq":1,"time":"2026-05-04T12:00:00Z","prev":"` + noPrev + `","kind":"sandbox.created","mission":"m-1","run":"r-1-1","data":{"a":"<é>","b":0}}`
		if diff := cmp.Diff(want, rows[0].Record); diff != "" {
			t.Errorf("canonical record: %s", diff)
		}
	})
}

// Records of several bots and several goroutines are one chain.
func TestAppendsAreSerialised(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "audit.db") },
		"postgres": server.Database,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, dir := make(t), t.TempDir()
			var wg sync.WaitGroup
			for bot := range 3 {
				l := New(Options{Chain: open(t, address), Dir: filepath.Join(dir, fmt.Sprint(bot))})
				for range 3 {
					wg.Go(func() {
						for range 5 {
							if err := l.Append(context.Background(), Entry{Kind: "wish", Actor: "octavia"}); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			wg.Wait()
			s := open(t, address)
			chain := verify(t, s)
			if !chain.OK() || chain.Records != 45 {
				t.Errorf("%d records, problems %q", chain.Records, chain.Problems)
			}
			for bot := range 3 {
				l := New(Options{Chain: s, Dir: filepath.Join(dir, fmt.Sprint(bot))})
				if err := l.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				files, err := l.files.Verify()
				if err != nil || !files.OK() || files.Head != chain.Head {
					t.Errorf("files of bot %d: %+v, %v", bot, files, err)
				}
			}
		})
	}
}

func TestVerifyFindsTampering(t *testing.T) {
	for _, c := range []struct{ name, statement, want string }{
		{"removed", `delete from audit where seq = 3`, "record 3 is missing between record 2 and record 4"},
		{"several removed", `delete from audit where seq in (2, 3)`, "records 2 to 3 are missing between record 1 and record 4"},
		{"the first removed", `delete from audit where seq = 1`, "record 1 is missing at the beginning"},
		{"the last removed", `delete from audit where seq >= 5`, "records 5 to 6 are missing at the end of the database"},
		{"changed", `update audit set record = replace(record, 'r-1-3', 'r-1-9') where seq = 3`, "record 3 was changed: its text does not have its hash"},
		{"changed beside the text", `update audit set run = 'r-1-9' where seq = 3`, "record 3 was changed: what it is found by does not agree"},
		{"no record any more", `update audit set record = 'x' where seq = 3`, "record 3 was changed"},
		{"moved", `update audit set seq = 99 where seq = 2`, "record 2 is missing between record 1 and record 3"},
		{"swapped", `update audit set record = (select record from audit where seq = 4), hash = (select hash from audit where seq = 4) where seq = 3`,
			"record 3 was changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "audit.db")
			s := open(t, path)
			l := written(t, s, 6)
			tamper(t, path, c.statement)
			chain := verify(t, s)
			files, err := l.files.Verify()
			if err != nil || !files.OK() {
				t.Fatalf("the files: %+v, %v", files, err)
			}
			chain.Compare(files)
			if !strings.Contains(strings.Join(chain.Problems, "\n"), c.want) {
				t.Errorf("got %q, want one with %q", chain.Problems, c.want)
			}
		})
	}
}

func tamper(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// Whoever can write everything can write a whole chain anew; a head that was kept elsewhere shows it.
func TestHeadKeptElsewhere(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "audit.db"))
	written(t, s, 3)
	kept := verify(t, s).Head
	other := open(t, filepath.Join(t.TempDir(), "other.db"))
	written(t, other, 2)
	anew := verify(t, other)
	anew.Expect(kept)
	if want := []string{"record 3 is missing at the end: the chain had reached record 3"}; !cmp.Equal(want, anew.Problems) {
		t.Errorf("got %q, want %q", anew.Problems, want)
	}
	anew = verify(t, other)
	anew.Expect(Head{2, kept.Hash})
	if want := []string{"record 2 is not the one that was kept: the chain was written anew"}; !cmp.Equal(want, anew.Problems) {
		t.Errorf("got %q, want %q", anew.Problems, want)
	}
}

func TestFilesRotateAndHeal(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "audit.db"))
	l := New(Options{Chain: s, Dir: filepath.Join(t.TempDir(), "of [bot]")}) // no pattern of names
	l.files.Most = 1500
	for range 20 {
		if err := l.Append(t.Context(), Entry{Kind: "probe", Data: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := l.files.list()
	if err != nil || len(files) < 2 {
		t.Fatalf("files %q, %v", files, err)
	}
	r, err := l.files.Verify()
	if err != nil || !r.OK() || r.Records != 20 {
		t.Fatalf("after rotation: %+v, %v", r, err)
	}
	// A crash in the middle of a line.
	last := filepath.Join(l.files.Dir, newest)
	out, err := os.OpenFile(last, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.WriteString(`{"seq":21,"ti`); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if err := l.Append(t.Context(), Entry{Kind: "probe"}); err != nil {
		t.Fatal(err)
	}
	if r, err = l.files.Verify(); err != nil || !r.OK() || r.Records != 21 {
		t.Errorf("after a crash: %+v, %v", r, err)
	}
	// Older files may be moved away.
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if r, err = l.files.Verify(); err != nil || !r.OK() || r.First == 1 {
		t.Errorf("without the oldest file: %+v, %v", r, err)
	}
}

func TestVerifyFindsTamperedFile(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "audit.db"))
	var out bytes.Buffer
	written(t, s, 5)
	if err := Export(t.Context(), s, 0, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"whole":     {lines, ""},
		"removed":   {append(append([]string{}, lines[:2]...), lines[3:]...), "record 3 is missing between record 2 and record 4"},
		"reordered": {[]string{lines[0], lines[2], lines[1], lines[3], lines[4]}, "record 2 stands after record 3"},
		"changed":   {[]string{lines[0], strings.Replace(lines[1], "m-1", "m-2", 1)}, "record 2 was changed"},
		"cut":       {[]string{lines[0], lines[1][:40]}, "not a line of an audit file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.jsonl")
			if err := os.WriteFile(path, []byte(strings.Join(c.lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := VerifyFiles(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Problems, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNoSecretIsRecorded(t *testing.T) {
	t.Parallel()
	const marker = "marker-secret-31415926535"
	redactor := redact.New()
	redactor.Add(redact.NewSecret(marker))
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.db")
	s := open(t, path)
	l := New(Options{Chain: s, Dir: filepath.Join(dir, "audit"), Redact: redactor.String})
	type thing struct{ Note, Token string }
	for _, data := range []any{
		marker, map[string]string{"x " + marker: "y"}, []any{map[string]any{"deep": []string{"a " + marker + " b"}}}, thing{"n", marker}, &thing{marker, "ghs_0123456789abcdefghij"},
		redact.NewSecret(marker), strings.Repeat("x", mostText-10) + marker,
	} {
		if err := l.Append(t.Context(), Entry{Kind: "test", Repository: marker, Actor: marker, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(marker)) || bytes.Contains(text, []byte("0123456789abcdefghij")) {
			t.Errorf("the secret is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLargeDataIsLeftOut(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "audit.db"))
	l := New(Options{Chain: s, Dir: t.TempDir()})
	if err := l.Append(t.Context(), Entry{Kind: "flood", Data: make([]int, mostData)}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Audit(t.Context(), 0, 1)
	if err != nil || !strings.Contains(rows[0].Record, `"left_out":"too large"`) {
		t.Errorf("%v, %v", rows, err)
	}
	if r := verify(t, s); !r.OK() {
		t.Error(r.Problems)
	}
}
