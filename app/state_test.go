package app

import (
	"context"
	"testing"
	"time"
)

// TestStateDirectoryOfAnotherBot is waited for as long as one that was killed may hold it on, and no longer.
func TestStateDirectoryOfAnotherBot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := lockState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := lockState(short, dir); err == nil {
		t.Error("two bots have one state directory")
	}
	time.AfterFunc(100*time.Millisecond, func() { first.Close() })
	second, err := lockState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}
