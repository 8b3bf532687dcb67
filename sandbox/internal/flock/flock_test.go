package flock_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

func TestModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	if held, err := flock.Held(path, flock.Exclusive); held || err != nil {
		t.Errorf("a lock that nobody made: held %v, %v", held, err)
	}
	one, err := flock.Try(path, flock.Shared)
	if err != nil {
		t.Fatal(err)
	}
	two, err := flock.Try(path, flock.Shared)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flock.Try(path, flock.Exclusive); !errors.Is(err, flock.ErrHeld) {
		t.Errorf("Exclusive beside two Shared: %v, want ErrHeld", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := flock.Wait(ctx, path, flock.Exclusive); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v, want the end of the context", err)
	}
	if err := errors.Join(one.Unlock(), two.Unlock()); err != nil {
		t.Fatal(err)
	}
	if held, err := flock.Held(path, flock.Exclusive); held || err != nil {
		t.Errorf("after Unlock: held %v, %v", held, err)
	}
	if _, err := flock.Try(filepath.Join(t.TempDir(), "no", "lock"), flock.Shared); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			l, err := flock.Wait(t.Context(), path, flock.Exclusive)
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d hold the lock", n)
			}
			inside.Add(-1)
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestChildHoldsOn gives the lock to a child and loses its own descriptor, as a process that is killed does.
func TestChildHoldsOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	l, err := flock.Try(path, flock.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.ExtraFiles = []*os.File{l.File()}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	l.File().Close()
	if held, err := flock.Held(path, flock.Shared); !held || err != nil {
		t.Errorf("while the child lives: held %v, %v", held, err)
	}
	in.Close()
	child.Wait()
	if held, err := flock.Held(path, flock.Shared); held || err != nil {
		t.Errorf("after the child: held %v, %v", held, err)
	}
}

// TestDirectoryReplaced locks a file whose directory is moved away meanwhile: the lock is of the new one.
func TestDirectoryReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, "run")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	old, err := flock.Try(filepath.Join(at, "lock"), flock.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := flock.Wait(t.Context(), filepath.Join(at, "lock"), flock.Exclusive)
		if err == nil {
			l.Unlock()
		}
		got <- err
	}()
	if err := os.Rename(at, filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := old.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Wait: %v, want the lock before the move, or that it is gone", err)
	}
}
