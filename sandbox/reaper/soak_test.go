package reaper_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/reaper"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
)

// TestSoak lets runs live while something is done to them at any moment: their bot is killed, or their supervisor, or a git, the
// disk becomes full, a directory loses its permissions. Then the reaper comes. Nothing stays that a run has made, the store is whole,
// and what a command had written is recorded. `make soak` does 500.
func TestSoak(t *testing.T) {
	runs := 20
	if n, err := strconv.Atoi(os.Getenv("SANDPIPER_SOAK_RUNS")); err == nil {
		runs = n
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("SANDPIPER_SOAK_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("%d runs, SANDPIPER_SOAK_SEED=%d", runs, seed)
	s := newSoak(t, rand.New(rand.NewPCG(seed, 0)))
	begin := time.Now()
	if _, err := sandboxtest.Killed(t, s.Fixture, "r-whole-1", s.src.Base, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.whole = time.Since(begin)
	for first := 0; first < runs; first += 4 { // a few at once, so that one's failure meets another's step
		var batch sync.WaitGroup
		for i := first; i < min(first+4, runs); i++ {
			f := s.plan(i)
			batch.Go(func() { s.live(f) })
		}
		batch.Wait()
	}
	s.heal()
	s.reapAll()
	s.nothingLeft()
}

type soak struct {
	fixture
	t     *testing.T
	rand  *rand.Rand
	whole time.Duration // of a life to which nothing is done
	small bool          // the state lies on a file system of its own, which can be filled

	mu     sync.Mutex
	ran    map[sandbox.ID]bool
	closed []string // directories that have lost their permissions
	count  map[string]int
}

// failure is what is done to a run, and when.
type failure struct {
	id    sandbox.ID
	kind  string
	after time.Duration
}

func newSoak(t *testing.T, r *rand.Rand) *soak {
	t.Helper()
	s := &soak{t: t, rand: r, ran: map[sandbox.ID]bool{}, count: map[string]int{}}
	s.fixture = newFixture(t)
	if os.Geteuid() == 0 {
		dir := t.TempDir()
		if err := syscall.Mount("soak", dir, "tmpfs", 0, "size=192m,mode=0711"); err == nil {
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			s.small = true
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			if s.Fixture, err = open(dir, []string{self, "supervise"}); err != nil {
				t.Fatal(err)
			}
			up := sandboxtest.NewRepo(t)
			up.Write("a.txt", "one\n")
			up.Commit()
			s.src = s.Source(t, up)
		}
	}
	return s
}

func (s *soak) plan(i int) failure {
	kinds := []string{"nothing", "bot", "supervisor", "git", "permissions", "disk"}
	if !s.small {
		kinds = kinds[:len(kinds)-1]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return failure{id: sandbox.ID(fmt.Sprintf("r-soak-%d", i)), kind: kinds[i%len(kinds)],
		after: time.Duration(s.rand.Int64N(int64(s.whole) * 3 / 2))}
}

// live has one life, in a process of its own, and does to it what is planned.
func (s *soak) live(f failure) {
	life := time.Minute
	if f.kind == "bot" {
		life = f.after
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(f.after)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.do(ctx, f)
		case <-ctx.Done():
		}
	}()
	said, _ := sandboxtest.Killed(s.t, s.Fixture, f.id, s.src.Base, life)
	cancel()
	<-done
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran[f.id] = sandboxtest.Ran(said)
	s.count[f.kind]++
}

func (s *soak) do(ctx context.Context, f failure) {
	switch f.kind {
	case "supervisor":
		kill(s.t, func(cmdline, _ []byte) bool {
			return bytes.Contains(cmdline, []byte("\x00supervise\x00"+s.StateDir+"\x00"+string(f.id)+"\x00"))
		})
	case "git":
		kill(s.t, func(cmdline, environ []byte) bool {
			return bytes.Contains(environ, []byte("GIT_DIR="+s.StateDir)) && !bytes.Contains(cmdline, []byte("\x00supervise\x00"))
		})
	case "permissions":
		s.close(f.id)
	case "disk":
		s.fill(ctx)
	}
}

// kill ends all processes that are of this test, by kill -9.
func kill(t *testing.T, ours func(cmdline, environ []byte) bool) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Error(err)
	}
	for _, p := range procs {
		cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(p, "environ"))
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && pid != os.Getpid() && ours(cmdline, environ) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
		}
	}
}

// noProcesses waits: a git that a killed caller had started comes to its own end.
func (s *soak) noProcesses() {
	s.t.Helper()
	tick, limit := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		var alive []string
		kill(s.t, func(cmdline, _ []byte) bool {
			if bytes.Contains(cmdline, []byte(s.StateDir+"\x00")) || bytes.Contains(cmdline, []byte(s.StateDir+"/")) {
				alive = append(alive, strings.ReplaceAll(string(cmdline), "\x00", " "))
			}
			return false
		})
		if len(alive) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			s.t.Errorf("processes are left: %q", alive)
			return
		}
	}
}

// close takes the permissions of some directory of a run, which stops an ordinary user, and makes a sandbox fail for root too.
func (s *soak) close(id sandbox.ID) {
	dirs, err := filepath.Glob(filepath.Join(s.StateDir, "runs", string(id), "*"))
	if err != nil || len(dirs) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := dirs[s.rand.IntN(len(dirs))]
	if info, err := os.Lstat(dir); err == nil && info.IsDir() && os.Chmod(dir, 0) == nil {
		s.closed = append(s.closed, dir)
	}
}

// fill leaves nobody a block, for a while.
func (s *soak) fill(ctx context.Context) {
	file := filepath.Join(s.StateDir, "filler")
	w, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return // full
	}
	defer os.Remove(file)
	defer w.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := w.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	timer := time.NewTimer(s.whole)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *soak) heal() {
	for _, dir := range s.closed {
		if err := os.Chmod(dir, 0o755); err != nil && !os.IsNotExist(err) {
			s.t.Error(err)
		}
	}
	os.Remove(filepath.Join(s.StateDir, "filler"))
	s.t.Logf("what was done: %v", s.count)
}

// reapAll reaps until there is nothing to do: a detached command, which no kill met, ends first.
func (s *soak) reapAll() {
	limit := time.Now().Add(2 * time.Minute)
	for {
		o := s.after(2 * time.Hour)
		o.Retain = 1000 * time.Hour
		got, err := reaper.Reap(s.t.Context(), o)
		if err == nil && len(got.Discarded)+len(got.Skipped)+len(got.Removed) == 0 {
			break
		}
		if time.Now().After(limit) {
			s.t.Fatalf("the reaper does not come to an end: %+v, %v", got, err)
		}
	}
	for id, ran := range s.ran {
		if !ran {
			continue
		}
		if got := s.Store(s.t, "for-each-ref", "--format=%(refname)", "refs/sandpiper/"+string(id)+"/discarded"); got == "" {
			s.t.Errorf("the work of %s was not recorded", id)
		} else if got := s.Store(s.t, "show", got+":work"); got != "work" {
			s.t.Errorf("the work of %s is recorded as %q", id, got)
		}
	}
	o := s.after(2000 * time.Hour)
	o.Care = reaper.Now
	if got := reap(s.t, o); len(got.Skipped) > 0 || len(got.Stores) == 0 {
		s.t.Errorf("at the end: %+v", got)
	}
}

func (s *soak) nothingLeft() {
	for _, dir := range []string{"runs", "archive", "stores/local-test.git/worktrees"} {
		if left, err := os.ReadDir(filepath.Join(s.StateDir, dir)); err == nil && len(left) > 0 {
			s.t.Errorf("%d entries are left in %s, such as %s", len(left), dir, left[0].Name())
		}
	}
	err := filepath.WalkDir(s.StateDir, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case strings.Contains(name, "tmp_"), strings.HasPrefix(name, ".tmp-"), strings.HasPrefix(name, "fast_import_crash"), strings.HasPrefix(name, "quarantine-"),
			strings.Contains(path, "/refs/") && strings.HasSuffix(name, ".lock"):
			s.t.Errorf("%s is left", path)
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
	for line := range strings.Lines(s.Store(s.t, "for-each-ref", "--format=%(refname)")) {
		if !strings.HasPrefix(line, "refs/sandpiper/fetch/") && !strings.HasPrefix(line, "refs/sandpiper/bases/") {
			s.t.Errorf("ref %s is left", line)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(s.StateDir+"/")) {
		s.t.Errorf("mounts are left below %s (%v)", s.StateDir, err)
	}
	s.noProcesses()
	s.Store(s.t, "fsck", "--strict", "--no-dangling")
}
