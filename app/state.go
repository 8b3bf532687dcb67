package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockState holds the state directory for this process; the kernel lets go of it however the process ends.
func lockState(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "bot.lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	// A bot that was killed while it started a program lives on in that for an instant, with all that it had open, until it is executed.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("state directory %s is in use by another bot; give this one its own SANDPIPER_STATE_DIR", dir)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return f, nil
}

// hostID is the name of a state directory among the bots that share a database. It is made once.
func hostID(dir string) (string, error) {
	file := filepath.Join(dir, "host-id")
	text, err := os.ReadFile(file)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("state directory: %w", err)
	}
	id := strings.ToLower(rand.Text()[:12])
	if err := os.WriteFile(file+".new", []byte(id), 0o600); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	return id, os.Rename(file+".new", file)
}
