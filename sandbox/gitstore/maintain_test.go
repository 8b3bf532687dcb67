package gitstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

func has(t *testing.T, s *gitstore.Stores, commit string) bool {
	t.Helper()
	_, err := s.Resolve(t.Context(), "local-1", commit)
	if err != nil && !errors.Is(err, git.ErrNoRef) {
		t.Fatal(err)
	}
	return err == nil
}

func maintain(t *testing.T, s *gitstore.Stores, c gitstore.Care) gitstore.Cared {
	t.Helper()
	done, err := s.Maintain(t.Context(), "local-1", c)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Upstream is forced to another history, and the store is packed and pruned as hard as can be, again and again. What a ref of a
// run holds stays; what only the sandbox of an open run can name stays; the rest goes when its time has come.
func TestMaintainNeverBehindARun(t *testing.T) {
	t.Parallel()
	dir, root := repo(t)
	s, r := open(t), gitstore.Remote{Key: "local-1", URL: ""}
	r.URL = dir
	fetch := func() string {
		c, _, err := s.FetchCommit(t.Context(), r, "main")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	held := commit(t, dir, "held by a run")
	fetch()
	if err := s.SetRef(t.Context(), r.Key, "refs/sandpiper/r-1/base", held, ""); err != nil {
		t.Fatal(err)
	}
	seen := commit(t, dir, "seen by a run")
	fetch()
	run(t, dir, "reset", "-q", "--hard", root)
	forced := commit(t, dir, "forced")
	run(t, dir, "reflog", "expire", "--expire=now", "--all")
	run(t, dir, "gc", "-q", "--prune=now")
	fetch()
	now := time.Now()
	opened := now.Add(-time.Hour)
	at := func(d time.Duration, open time.Time) gitstore.Care {
		return gitstore.Care{Now: now.Add(d), Grace: time.Second, Open: open, Force: true}
	}
	for _, d := range []time.Duration{0, time.Minute, time.Hour, 1000 * time.Hour} {
		maintain(t, s, at(d, opened))
		for what, c := range map[string]string{"the base of a run": held, "what an open run may name": seen, "the new head": forced} {
			if !has(t, s, c) {
				t.Errorf("%v later %s is gone", d, what)
			}
		}
	}
	// The run has ended. The object has been out of reach for 1000 hours; a run that began after that cannot know of it.
	if done := maintain(t, s, at(1000*time.Hour, now.Add(999*time.Hour))); done.Pruned == 0 || has(t, s, seen) {
		t.Errorf("what nobody needs is there: %+v", done)
	}
	if !has(t, s, held) || !has(t, s, forced) {
		t.Error("what somebody needs is gone")
	}
	run(t, s.Dir(r.Key), "fsck", "--strict")
	if bitmaps, _ := filepath.Glob(filepath.Join(s.Dir(r.Key), "objects/pack/*.bitmap")); len(bitmaps) != 1 {
		t.Errorf("%d bitmaps", len(bitmaps))
	}
	if _, err := os.Stat(filepath.Join(s.Dir(r.Key), "objects/info/commit-graph")); err != nil {
		t.Error(err)
	}
}

// An object that was written long ago and cut off just now waits from now on, although git would call it old.
func TestMaintainWaitsFromWhenItSaw(t *testing.T) {
	t.Parallel()
	dir, root := repo(t)
	s, r := open(t), gitstore.Remote{Key: "local-1", URL: dir}
	cut := commit(t, dir, "cut off")
	if _, _, err := s.FetchCommit(t.Context(), r, "main"); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-5000 * time.Hour)
	err := filepath.Walk(s.Dir(r.Key), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			err = os.Chtimes(path, old, old)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "reset", "-q", "--hard", root)
	if _, _, err := s.FetchCommit(t.Context(), r, "main"); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	done := maintain(t, s, gitstore.Care{Now: now, Grace: time.Hour, Force: true})
	if !has(t, s, cut) || done.Waiting == 0 {
		t.Errorf("pruned at once: %+v", done)
	}
	if done := maintain(t, s, gitstore.Care{Now: now.Add(2 * time.Hour), Grace: time.Hour, Force: true}); has(t, s, cut) {
		t.Errorf("not pruned: %+v", done)
	}
}

func TestMaintainLeavesABusyStore(t *testing.T) {
	t.Parallel()
	dir, _ := repo(t)
	s := open(t)
	if _, _, err := s.FetchCommit(t.Context(), gitstore.Remote{Key: "local-1", URL: dir}, "main"); err != nil {
		t.Fatal(err)
	}
	if done := maintain(t, s, gitstore.Care{Now: time.Now()}); done.Skipped == "" {
		t.Errorf("a small store: %+v", done)
	}
	l, err := flock.Try(strings.TrimSuffix(s.Dir("local-1"), ".git")+".lock", flock.Shared)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	if _, err := s.Maintain(t.Context(), "local-1", gitstore.Care{Now: time.Now(), Force: true}); !errors.Is(err, git.ErrLocked) {
		t.Errorf("maintained while somebody writes: %v", err)
	}
}

// TestHalfPack kills a git while it writes a pack: on a full disk the part of it would hold the bytes that everybody else needs.
func TestHalfPack(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir, _ := repo(t)
	if _, _, err := s.FetchCommit(t.Context(), gitstore.Remote{Key: "k", URL: dir}, "main"); err != nil {
		t.Fatal(err)
	}
	halves := func() []string {
		found, err := filepath.Glob(filepath.Join(s.Dir("k"), "objects/pack/tmp_*"))
		if err != nil {
			t.Error(err)
		}
		return found
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, out := io.Pipe()
	go func() {
		fmt.Fprintf(out, "blob\ndata 5\nhello\n")
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for len(halves()) == 0 && ctx.Err() == nil {
			<-ticker.C
		}
		if ctx.Err() != nil {
			t.Error("no pack was begun")
		}
		cancel()
		out.Close()
	}()
	if _, err := s.Run(ctx, "k", git.Call{Args: []string{"fast-import", "--quiet"}, Stdin: in}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v, want that it was cancelled", err)
	}
	if left := halves(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
