package sandboxtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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
)

// live is a whole life of a sandbox, which can be taken up at any point of it, also by several processes at once. say is called
// after each step.
func live(ctx context.Context, f Fixture, id sandbox.ID, base string, say func(string)) error {
	err := work(ctx, f, id, base, say)
	var gone *sandbox.ErrState
	if err == nil || errors.As(err, &gone) { // done, or somebody has begun to discard it
		if _, err := f.Manager.Discard(ctx, id); err != nil {
			return err
		}
		say("discarded")
		return nil
	}
	return err
}

func work(ctx context.Context, f Fixture, id sandbox.ID, base string, say func(string)) error {
	m := f.Manager
	src := sandbox.Source{Key: "local-test", Base: base}
	if _, err := m.Create(ctx, "m-1", src, sandbox.Options{ID: id}); err != nil {
		return err
	}
	say("created")
	res, err := m.RunCheck(ctx, id, "agent", Shell("echo begun; echo work >work; echo more >>a.txt; git add work; git commit -qm work"))
	if err != nil {
		return err
	}
	if res.Exit.OK() {
		say("ran")
	} else if res.Exit.Reason != sandbox.Lost {
		return fmt.Errorf("agent: %+v", res.Exit)
	}
	if _, err := m.CollectDiff(ctx, id); err != nil {
		return err
	}
	say("collected")
	if _, err := m.Promote(ctx, id, sandbox.Selection{}, commitSpec(), nil); err != nil && !errors.Is(err, sandbox.ErrNothing) {
		return err
	}
	say("promoted")
	return nil
}

// testTwoProcesses has three processes live the same life at the same time.
func testTwoProcesses(t *testing.T, f Fixture) {
	src := f.Source(t, small(t))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if said, err := Killed(t, f, "r-same-1", src.Base, time.Hour); err != nil {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
	wg.Wait()
	if got := logOf(t, f, "r-same-1", "agent"); got != "begun\n" {
		t.Errorf("log of the one command: %q", got)
	}
	nothingLeft(t, f)
}

// testHalfMade is Create after a kill between the workspace and the record of it, and after one before the workspace was whole.
func testHalfMade(t *testing.T, f Fixture) {
	r := small(t)
	src := f.Source(t, r)
	id := f.Create(t, r)
	file := filepath.Join(f.StateDir, "runs", string(id), "run.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), `"made": true`, `"made": false`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Manager.Run(t.Context(), id, Shell("true"), sandbox.Stdio{}); err == nil {
		t.Error("Run before the workspace was finished: no error")
	}
	if _, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{ID: id}); err != nil {
		t.Fatal(err)
	}
	f.Sh(t, id, "git status; echo x >x")
	collect(t, f, id)
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, f)
}

// testShallow makes a sandbox of a repository that has its last commit only, as a build service clones it.
func testShallow(t *testing.T, f Fixture) {
	full := small(t)
	full.Write("later", "")
	full.Commit()
	r := &Repo{t: t, Dir: t.TempDir()}
	r.Git("clone", "-q", "--depth", "1", "file://"+full.Dir, ".")
	id := f.Create(t, r)
	if got := f.Sh(t, id, "git log --format=%s; git status --porcelain; echo x >>a.txt; git commit -qam y"); got != "a commit\n" {
		t.Errorf("git log in the sandbox: %q", got)
	}
	if diff := cmp.Diff([]string{"modified a.txt"}, summary(t, f, id)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// testKilled kills a process in the middle of a life, at a later moment each time, and lets another one go on.
func testKilled(t *testing.T, f Fixture) {
	src := f.Source(t, small(t))
	const rounds = 24
	begin := time.Now()
	if _, err := Killed(t, f, "r-whole", src.Base, time.Hour); err != nil {
		t.Fatalf("a life that nobody kills: %v", err)
	}
	whole := time.Since(begin)
	for i := range rounds {
		id := sandbox.ID(fmt.Sprintf("r-killed-%d", i))
		said, _ := Killed(t, f, id, src.Base, whole*time.Duration(i)/rounds)
		var later []string
		if err := live(t.Context(), f, id, src.Base, func(s string) { later = append(later, s) }); err != nil {
			t.Fatalf("round %d, killed after %q, then %q: %v", i, said, later, err)
		}
		if Ran(said) || slices.Contains(later, "ran") {
			if got := f.Store(t, "show", sandbox.Ref(id, "discarded")+":work"); got != "work" {
				t.Errorf("round %d, killed after %q: recorded work is %q", i, said, got)
			}
		}
	}
	// A git whose caller was killed can leave half of a pack: the reaper sweeps stores.
	if _, err := f.Stores.Sweep(t.Context(), src.Key, time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	nothingLeft(t, f)
	f.Store(t, "fsck", "--strict", "--no-dangling")
}

// Killed runs a life (create, run, collect, promote, discard) in a process of its own and kills that after a time. said is how
// far it came: created, ran, collected, promoted, discarded.
func Killed(t *testing.T, f Fixture, id sandbox.ID, base string, after time.Duration) (said string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "life", f.StateDir, string(id), base)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var lines []string
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return strings.Join(lines, " "), cmd.Wait()
}

// Ran says whether a life came so far that its command has ended well. What it failed with may speak of anything.
func Ran(said string) bool {
	steps, _, _ := strings.Cut(said, "failed:")
	return slices.Contains(strings.Fields(steps), "ran")
}

// testNothingLeft has ten lives at once, then forgets them: nothing at all stays.
func testNothingLeft(t *testing.T, f Fixture) {
	src := f.Source(t, small(t))
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			errs[i] = live(t.Context(), f, sandbox.ID(fmt.Sprintf("r-life-%d", i)), src.Base, func(string) {})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, f)
	recs, err := f.Manager.Discarded()
	if err != nil || len(recs) != len(errs) {
		t.Fatalf("%d discarded sandboxes (%v), want %d", len(recs), err, len(errs))
	}
	for _, rec := range recs {
		if err := f.Manager.Forget(t.Context(), rec.ID); err != nil {
			t.Error(err)
		}
	}
	for line := range strings.Lines(f.Store(t, "for-each-ref", "--format=%(refname)")) {
		if !strings.HasPrefix(line, "refs/sandpiper/fetch/") && !strings.HasPrefix(line, "refs/sandpiper/bases/") {
			t.Errorf("ref %s is left", line)
		}
	}
	if left, err := os.ReadDir(filepath.Join(f.StateDir, "archive")); err != nil || len(left) > 0 {
		t.Errorf("%d archives are left (%v)", len(left), err)
	}
}
