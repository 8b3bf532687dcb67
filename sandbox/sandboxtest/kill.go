package sandboxtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// live is a whole life of a sandbox, which can be taken up at any point of it. say is called after each step.
func live(ctx context.Context, f Fixture, id sandbox.ID, base string, say func(string)) error {
	m := f.Manager
	if state, err := m.Status(id); err == nil && state == sandbox.Discarded {
		return nil
	}
	src := sandbox.Source{Key: "local-test", Base: base}
	var gone *sandbox.ErrState
	if _, err := m.Create(ctx, "m-1", src, sandbox.Options{ID: id}); errors.As(err, &gone) {
		_, err := m.Discard(ctx, id) // killed in the middle of that
		return err
	} else if err != nil {
		return err
	}
	say("created")
	res, err := m.RunCheck(ctx, id, "agent", Shell("echo work >work; echo more >>a.txt; git add work; git commit -qm work"))
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
	if _, err := m.Discard(ctx, id); err != nil {
		return err
	}
	say("discarded")
	return nil
}

// testKilled kills a process in the middle of a life, at a later moment each time, and lets another one go on.
func testKilled(t *testing.T, f Fixture) {
	src := f.Source(t, small(t))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 24
	begin := time.Now()
	if _, err := killed(t, f, self, "r-whole", src.Base, time.Hour); err != nil {
		t.Fatalf("a life that nobody kills: %v", err)
	}
	whole := time.Since(begin)
	for i := range rounds {
		id := sandbox.ID(fmt.Sprintf("r-killed-%d", i))
		said, _ := killed(t, f, self, id, src.Base, whole*time.Duration(i)/rounds)
		var later []string
		if err := live(t.Context(), f, id, src.Base, func(s string) { later = append(later, s) }); err != nil {
			t.Fatalf("round %d, killed after %q, then %q: %v", i, said, later, err)
		}
		if strings.Contains(said+strings.Join(later, " "), "ran") {
			if got := f.Store(t, "show", sandbox.Ref(id, "discarded")+":work"); got != "work" {
				t.Errorf("round %d, killed after %q: recorded work is %q", i, said, got)
			}
		}
	}
	nothingLeft(t, f)
	f.Store(t, "fsck", "--strict", "--no-dangling")
}

// killed runs a life in a process of its own and kills that after a time. said is how far it came.
func killed(t *testing.T, f Fixture, self string, id sandbox.ID, base string, after time.Duration) (said string, err error) {
	t.Helper()
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
		if !strings.HasPrefix(line, "refs/sandpiper/fetch/") {
			t.Errorf("ref %s is left", line)
		}
	}
	if left, err := os.ReadDir(filepath.Join(f.StateDir, "archive")); err != nil || len(left) > 0 {
		t.Errorf("%d archives are left (%v)", len(left), err)
	}
}
