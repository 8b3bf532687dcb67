// Package flock holds advisory locks that end with the process that holds them.
//
// It uses flock(2) on a file that stays where it is: the kernel gives the lock up when the last descriptor of it is closed,
// also by kill -9, so that nothing is ever left behind to wedge the next process. A lock file that is made and removed
// could not do that. The lock belongs to the open file: a child that inherits the descriptor holds the lock on.
package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Mode of a lock.
type Mode int

// The modes: any number of Shared ones, or one Exclusive.
const (
	Shared    Mode = unix.LOCK_SH
	Exclusive Mode = unix.LOCK_EX
)

// ErrHeld is returned by Try when somebody else holds the lock.
var ErrHeld = errors.New("lock is held")

// Lock is a held lock.
type Lock struct{ f *os.File }

// Try takes the lock at path, or returns ErrHeld at once. The file is made when it is missing (its directory is not).
func Try(path string, m Mode) (*Lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		err = unix.Flock(int(f.Fd()), int(m)|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, ErrHeld
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if l := (&Lock{f}); l.stands(path) {
			return l, nil
		}
		f.Close() // the directory was moved or removed while we waited: this was the lock of something else
	}
}

// Wait takes the lock at path, waiting until it is free or the context ends.
func Wait(ctx context.Context, path string, m Mode) (*Lock, error) {
	// flock can block only uninterruptibly for a context, so this asks again: soon at first, then 20 times a second.
	delay := time.Millisecond
	for {
		l, err := Try(path, m)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		t := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("waiting for lock %s: %w", path, ctx.Err())
		case <-t.C:
		}
		delay = min(2*delay, 50*time.Millisecond)
	}
}

// Held says whether somebody holds a lock at path that excludes mode. A missing file is not held.
func Held(path string, m Mode) (bool, error) {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	l, err := Try(path, m)
	if errors.Is(err, ErrHeld) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, l.Unlock()
}

// File is the open file: hand it to a child that should hold the lock too.
func (l *Lock) File() *os.File { return l.f }

// Unlock gives the lock up, for children that inherited it too. Closing the file alone would not do: a child that another
// goroutine is starting has a copy of the descriptor until it executes its program.
func (l *Lock) Unlock() error {
	if err := unix.Flock(int(l.f.Fd()), unix.LOCK_UN); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// stands says whether the locked file is still the one at path.
func (l *Lock) stands(path string) bool {
	var held, there unix.Stat_t
	if unix.Fstat(int(l.f.Fd()), &held) != nil || unix.Lstat(path, &there) != nil {
		return false
	}
	return held.Ino == there.Ino && held.Dev == there.Dev
}
