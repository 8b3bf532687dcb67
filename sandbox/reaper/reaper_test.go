package reaper_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
	"github.com/sandpiper-bot/sandpiper/sandbox/overlay"
	"github.com/sandpiper-bot/sandpiper/sandbox/reaper"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

func open(state string, supervisor []string) (sandboxtest.Fixture, error) {
	f := sandboxtest.Fixture{StateDir: state}
	g, err := git.New(git.Options{})
	if err != nil {
		return f, err
	}
	if f.Stores, err = gitstore.Open(filepath.Join(state, "stores"), g); err != nil {
		return f, err
	}
	f.Manager, err = sandbox.Open(sandbox.Config{StateDir: state, Stores: f.Stores, Supervisor: supervisor,
		Backends: []sandbox.Backend{worktree.New(worktree.Options{Stores: f.Stores}), overlay.New(overlay.Options{StateDir: state, Stores: f.Stores})},
		Default:  os.Getenv("SANDPIPER_SOAK_BACKEND")}) // supervisors go by the record
	return f, err
}

func TestMain(m *testing.M) { sandboxtest.Main(m, open) }

// fixture has a store with one base, from which create makes sandboxes.
type fixture struct {
	sandboxtest.Fixture
	src sandbox.Source
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap (bwrap) is not installed: nothing can be run in a sandbox")
	}
	f := fixture{Fixture: sandboxtest.New(t, open)}
	r := sandboxtest.NewRepo(t)
	r.Write("a.txt", "one\n")
	r.Commit()
	f.src = f.Source(t, r)
	return f
}

func (f fixture) create(t *testing.T, id sandbox.ID) {
	t.Helper()
	if _, err := f.Manager.Create(t.Context(), "m-1", f.src, sandbox.Options{ID: id}); err != nil {
		t.Fatal(err)
	}
}

// after gives the options of a reaper that runs some time from now.
func (f fixture) after(d time.Duration) reaper.Options {
	return reaper.Options{Manager: f.Manager, MaxAge: time.Hour, Retain: 24 * time.Hour, Now: func() time.Time { return time.Now().Add(d) }}
}

func reap(t *testing.T, o reaper.Options) reaper.Report {
	t.Helper()
	r, err := reaper.Reap(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, id := range []sandbox.ID{"r-old-1", "r-live-1", "r-kept-1", "r-kept-2", "r-huge-1", "r-busy-1"} {
		f.create(t, id)
	}
	f.Sh(t, "r-old-1", "echo work >work")
	f.Sh(t, "r-huge-1", "truncate -s 3G huge")
	if err := f.Manager.Keep(t.Context(), "r-kept-1", time.Now().Add(10*time.Hour), "still looking"); err != nil {
		t.Fatal(err)
	}
	if err := f.Manager.Keep(t.Context(), "r-kept-2", time.Now().Add(time.Hour), "over by then"); err != nil {
		t.Fatal(err)
	}
	if err := f.Manager.Start(t.Context(), "r-busy-1", "agent", sandboxtest.Shell("until [ -e go ]; do sleep 0.05; done")); err != nil {
		t.Fatal(err)
	}
	young := reap(t, f.after(0))
	if diff := cmp.Diff(reaper.Report{Discarded: []sandbox.ID{}, Forgotten: []sandbox.ID{}, Removed: []string{}, Skipped: map[string]string{}}, young); diff != "" {
		t.Errorf("all are young (-want +got):\n%s", diff)
	}
	o := f.after(2 * time.Hour)
	o.Live = func(id sandbox.ID) bool { return id == "r-live-1" }
	o.DryRun = true
	dry := reap(t, o)
	if diff := cmp.Diff([]sandbox.ID{"r-huge-1", "r-kept-2", "r-old-1"}, sorted(dry.Discarded)); diff != "" {
		t.Errorf("dry run (-want +got):\n%s", diff)
	}
	if recs, err := f.Manager.List(); err != nil || len(recs) != 6 {
		t.Errorf("after the dry run there are %d sandboxes, %v", len(recs), err)
	}
	o.DryRun = false
	got := reap(t, o)
	if diff := cmp.Diff([]sandbox.ID{"r-kept-2", "r-old-1"}, sorted(got.Discarded)); diff != "" {
		t.Errorf("discarded (-want +got):\n%s", diff)
	}
	for id, why := range map[string]string{"r-live-1": "live", "r-kept-1": "still looking", "r-huge-1": "huge", "r-busy-1": "running"} {
		if !strings.Contains(got.Skipped[id], why) {
			t.Errorf("%s was skipped because of %q, want %q", id, got.Skipped[id], why)
		}
	}
	if work := f.Store(t, "show", "refs/sandpiper/r-old-1/discarded:work"); work != "work" {
		t.Errorf("recorded work is %q", work)
	}
	if again := reap(t, o); len(again.Discarded)+len(again.Removed)+len(again.Forgotten) > 0 {
		t.Errorf("the second time: %+v", again)
	}
	forgotten := reap(t, f.after(25*time.Hour)).Forgotten
	if !slices.Contains(forgotten, "r-old-1") {
		t.Errorf("forgotten after the time of keeping: %v", forgotten)
	}
	if refs := f.Store(t, "for-each-ref", "refs/sandpiper/r-old-1"); refs != "" {
		t.Errorf("refs left: %s", refs)
	}
	if err := f.Manager.Stop(t.Context(), "r-busy-1", "agent"); err != nil {
		t.Error(err)
	}
}

// TestKilledProbe: a probe takes seconds, so nobody waits for the end of the time that runs are kept for.
func TestKilledProbe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "r-1-1")
	r := sandboxtest.NewRepo(t)
	r.Write("a.txt", "one\n")
	r.Commit()
	base, from, err := f.Stores.FetchCommit(t.Context(), gitstore.Remote{Key: sandbox.ProbeKey, URL: r.Dir}, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	f.src = sandbox.Source{Key: sandbox.ProbeKey, URL: r.Dir, Base: base, From: from}
	f.create(t, "probe-1")
	if young := reap(t, f.after(time.Minute)); len(young.Discarded) > 0 {
		t.Errorf("a probe that may be going on was discarded: %v", young.Discarded)
	}
	if diff := cmp.Diff([]sandbox.ID{"probe-1"}, reap(t, f.after(11*time.Minute)).Discarded); diff != "" {
		t.Errorf("discarded (-want +got):\n%s", diff)
	}
}

func sorted(ids []sandbox.ID) []sandbox.ID {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}

// TestLeftovers plants what a kill or a person can leave: directories, registrations and refs without a run.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "r-here-1")
	f.create(t, "r-lost-1")
	for _, p := range []string{"runs/r-lost-1", "runs/not a run"} {
		if err := os.RemoveAll(filepath.Join(f.StateDir, p)); err != nil {
			t.Fatal(err)
		}
	}
	for _, unborn := range []string{"runs/r-unborn-1", "runs/r-unborn-2"} {
		if err := os.MkdirAll(filepath.Join(f.StateDir, unborn), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// As a power cut leaves a file that nobody waited for.
	if err := os.WriteFile(filepath.Join(f.StateDir, "runs/r-unborn-2/run.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := f.after(2 * time.Hour)
	o.Live = func(id sandbox.ID) bool { return id == "r-here-1" }
	got := reap(t, o)
	want := []string{
		"directory without a record: r-unborn-1",
		"directory without a record: r-unborn-2",
		"refs of r-lost-1 in store local-test",
		"registration of r-lost-1 in store local-test",
	}
	var fixed []string
	for _, r := range got.Removed {
		if !strings.Contains(r, "refs/sandpiper/fetch/") {
			fixed = append(fixed, r)
		}
	}
	if diff := cmp.Diff(want, fixed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"r-here-1": "live"}, got.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	f.Sh(t, "r-here-1", "git status")
}

func TestTwoReapersBesideRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 6
	for i := range n {
		id := sandbox.ID("r-old-" + string(rune('a'+i)))
		f.create(t, id)
		f.Sh(t, id, "echo work >work")
	}
	var wg sync.WaitGroup
	found := make([]int, 3)
	for i := range found {
		wg.Go(func() {
			o := f.after(2 * time.Hour)
			o.Live = func(id sandbox.ID) bool { return strings.HasPrefix(string(id), "r-new") }
			r, err := reaper.Reap(t.Context(), o)
			if err != nil {
				t.Error(err)
			}
			found[i] = len(r.Discarded)
		})
	}
	for i := range 3 { // and meanwhile others live on
		id := sandbox.ID("r-new-" + string(rune('a'+i)))
		f.create(t, id)
		f.Sh(t, id, "echo new >new; git status")
		if _, err := f.Manager.CollectDiff(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	recs, err := f.Manager.List()
	if err != nil || len(recs) != 3 {
		t.Errorf("%d sandboxes are left (%v), want the 3 live ones; the reapers discarded %v", len(recs), err, found)
	}
}

// TestReapAfterKills kills lives at any moment and leaves all to the reaper: nothing stays, and no work is lost.
func TestReapAfterKills(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	begin := time.Now()
	if _, err := sandboxtest.Killed(t, f.Fixture, "r-whole-1", f.src.Base, time.Hour); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin)
	const rounds = 12
	ran := map[sandbox.ID]bool{}
	for i := range rounds {
		id := sandbox.ID("r-killed-" + string(rune('a'+i)))
		said, _ := sandboxtest.Killed(t, f.Fixture, id, f.src.Base, whole*time.Duration(i)/rounds)
		ran[id] = strings.Contains(said, "ran")
	}
	got := reap(t, f.after(2*time.Hour))
	for limit := time.Now().Add(time.Minute); len(got.Skipped) > 0 && time.Now().Before(limit); { // a detached command ends first
		got = reap(t, f.after(2*time.Hour))
	}
	if got = reap(t, f.after(2*time.Hour)); len(got.Skipped)+len(got.Discarded)+len(got.Removed) > 0 {
		t.Errorf("in the last round: %+v", got)
	}
	for id, ran := range ran {
		if got := f.Store(t, "for-each-ref", "--format=%(refname)", "refs/sandpiper/"+string(id)+"/discarded"); ran && got == "" {
			t.Errorf("the work of %s was not recorded", id)
		}
	}
	for _, dir := range []string{filepath.Join(f.StateDir, "runs"), filepath.Join(f.Stores.Dir("local-test"), "worktrees")} {
		if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
			t.Errorf("%d entries are left in %s", len(left), dir)
		}
	}
}

// What is recorded of a sandbox can be kept after it was discarded, by whoever finds late that it is of use.
func TestKeepWhatWasDiscarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	day := 24 * time.Hour
	for _, id := range []sandbox.ID{"r-kept-1", "r-gone-1"} {
		f.create(t, id)
		f.Sh(t, id, "echo work >work")
		if _, err := f.Manager.Discard(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Manager.Keep(t.Context(), "r-kept-1", time.Now().Add(90*day), "look at the failure"); err != nil {
		t.Fatal(err)
	}
	if got := reap(t, f.after(40*day)).Forgotten; len(got) != 1 || got[0] != "r-gone-1" {
		t.Errorf("forgotten after 40 days: %v, want r-gone-1 only", got)
	}
	if err := f.Manager.Recover(t.Context(), "r-kept-1", filepath.Join(t.TempDir(), "files")); err != nil {
		t.Errorf("what is kept can not be had: %v", err)
	}
	if got := reap(t, f.after(91*day)).Forgotten; len(got) != 1 || got[0] != "r-kept-1" {
		t.Errorf("forgotten after 91 days: %v, want r-kept-1", got)
	}
	if err := f.Manager.Keep(t.Context(), "r-kept-1", time.Now(), "too late"); !errors.Is(err, sandbox.ErrUnknown) {
		t.Errorf("keep what is forgotten: %v, want ErrUnknown", err)
	}
}

// TestKeepWaitsForDiscard: the record of a discarded sandbox is not written by two at once, and no lock stays in the archive.
func TestKeepWaitsForDiscard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.create(t, "r-kept-1")
	if _, err := f.Manager.Discard(t.Context(), "r-kept-1"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(f.StateDir, "archive/r-kept-1/lock")
	lock, err := flock.Try(file, flock.Exclusive) // as a Discard that is at its end
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.Manager.Keep(ctx, "r-kept-1", time.Now().Add(time.Hour), "too early"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("keep while it is written: %v", err)
	}
	if err := errors.Join(os.Remove(file), lock.Unlock()); err != nil {
		t.Fatal(err)
	}
	if err := f.Manager.Keep(t.Context(), "r-kept-1", time.Now().Add(time.Hour), "now"); err != nil {
		t.Error(err)
	}
	if rec, err := f.Manager.Record("r-kept-1"); err != nil || rec.Keep == nil || rec.Keep.Reason != "now" {
		t.Errorf("kept: %+v, %v", rec.Keep, err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock stays: %v", err)
	}
}
