package reaper_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/reaper"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
)

// A run holds on to a commit that only it can name, upstream is forced and fetched, and the store is pruned as hard as can be: git
// in the run goes on as if nothing had happened, and the store is whole. Once the run is gone the commit may go.
func TestCareNeverBehindARun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	up := sandboxtest.NewRepo(t)
	up.Write("a.txt", "one\n")
	root := up.Commit()
	up.Write("a.txt", "seen\n")
	seen := up.Commit()
	src := f.Source(t, up)
	up.Git("reset", "-q", "--hard", root)
	src.Base = root // the run is pinned below what it has seen
	f.src = src
	f.create(t, "r-open-1")
	f.Sh(t, "r-open-1", "git branch mine "+seen)
	up.Write("a.txt", "forced\n")
	up.Commit()
	up.Git("reflog", "expire", "--expire=now", "--all")
	up.Git("gc", "-q", "--prune=now")
	if _, _, err := f.Stores.FetchCommit(t.Context(), gitstore.Remote{Key: src.Key, URL: up.Dir}, "HEAD"); err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{0, 20 * 24 * time.Hour, 400 * 24 * time.Hour} {
		o := f.after(later)
		o.MaxAge, o.Care = 1000*24*time.Hour, reaper.Now
		if r := reap(t, o); len(r.Stores) != 1 || r.Stores[0].Pruned != 0 {
			t.Errorf("%v later: %+v", later, r.Stores)
		}
		if got := f.Sh(t, "r-open-1", "git fsck --no-dangling; git show mine:a.txt; date +%N >x; git add x; git commit -qm x; git status --porcelain"); !strings.Contains(got, "seen\n") {
			t.Errorf("%v later git in the run says %q", later, got)
		}
	}
	if _, err := f.Manager.Discard(t.Context(), "r-open-1"); err != nil {
		t.Fatal(err)
	}
	o := f.after(500 * 24 * time.Hour)
	o.Retain, o.Care = 1000*24*time.Hour, reaper.Now
	if r := reap(t, o); len(r.Stores) != 1 || r.Stores[0].Pruned == 0 {
		t.Errorf("after the run: %+v", r.Stores)
	}
	f.Store(t, "fsck", "--strict")
	if err := f.Manager.Recover(t.Context(), "r-open-1", t.TempDir()); err != nil {
		t.Errorf("what was discarded: %v", err)
	}
}
