package gitstore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// What was fetched is not fetched again, and counts as young to those who remove what nobody fetches any more.
func TestFetchCommitTwice(t *testing.T) {
	t.Parallel()
	dir, head := repo(t)
	var calls bytes.Buffer
	g, err := git.New(git.Options{Log: slog.New(slog.NewTextHandler(&calls, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	s, err := gitstore.Open(t.TempDir(), g)
	if err != nil {
		t.Fatal(err)
	}
	r := gitstore.Remote{Key: "k", URL: dir}
	for _, ref := range []string{"main", head} {
		if _, _, err := s.FetchCommit(t.Context(), r, ref); err != nil {
			t.Fatal(err)
		}
	}
	fetched, err := filepath.Glob(filepath.Join(s.Dir("k"), "refs/sandpiper/fetch/*"))
	if err != nil || len(fetched) != 2 {
		t.Fatalf("fetched heads: %v, %v", fetched, err)
	}
	old := time.Now().Add(-time.Hour)
	for _, path := range fetched {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	calls.Reset()
	for _, ref := range []string{"main", head} {
		if got, _, err := s.FetchCommit(t.Context(), r, ref); err != nil || got != head {
			t.Errorf("%s again: %s, %v; want %s", ref, got, err, head)
		}
	}
	if strings.Contains(calls.String(), "verb=fetch") {
		t.Errorf("fetched again:\n%s", &calls)
	}
	if removed, err := s.Sweep(t.Context(), "k", old.Add(time.Minute)); err != nil || len(removed) != 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	// Another commit is.
	later := commit(t, dir, "two")
	if got, _, err := s.FetchCommit(t.Context(), r, "main"); err != nil || got != later {
		t.Errorf("after a commit: %s, %v; want %s", got, err, later)
	}
}

func TestFetchCommit(t *testing.T) {
	t.Parallel()
	dir, head := repo(t)
	run(t, dir, "branch", "a")
	run(t, dir, "tag", "-a", "-m", "annotated", "v1")
	s := open(t)
	r := gitstore.Remote{Key: "local-1", URL: dir}
	for ref, from := range map[string]string{
		"HEAD": "HEAD", "main": "refs/heads/main", "heads/main": "refs/heads/main", "refs/heads/a": "refs/heads/a", "v1": "refs/tags/v1", head: head,
	} {
		got, gotFrom, err := s.FetchCommit(t.Context(), r, ref)
		if err != nil || got != head || gotFrom != from {
			t.Errorf("%s: %s from %s, %v; want %s from %s", ref, got, gotFrom, err, head, from)
		}
	}
	for _, ref := range []string{"gone", "refs/heads/gone", "main~1", "", "-x", strings.Repeat("1", 40)} {
		if _, _, err := s.FetchCommit(t.Context(), r, ref); !errors.Is(err, git.ErrNoRef) {
			t.Errorf("%q: %v, want ErrNoRef", ref, err)
		}
	}
	// A branch a/b where a branch a was.
	run(t, dir, "branch", "-D", "a")
	run(t, dir, "branch", "a/b")
	if _, _, err := s.FetchCommit(t.Context(), r, "a/b"); err != nil {
		t.Error(err)
	}
	// The branch is moved back: a fetched head follows.
	later := commit(t, dir, "two")
	if got, _, err := s.FetchCommit(t.Context(), r, "main"); err != nil || got != later {
		t.Errorf("after a commit: %s, %v", got, err)
	}
	run(t, dir, "reset", "-q", "--hard", head)
	if got, _, err := s.FetchCommit(t.Context(), r, "main"); err != nil || got != head {
		t.Errorf("after a forced push: %s, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir("local-1"), "FETCH_HEAD")); err == nil {
		t.Error("there is a FETCH_HEAD")
	}
}
