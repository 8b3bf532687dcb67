package installation

import (
	"errors"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// TestWhatNobodyAsksForIsForgotten: a bot meets repositories for months, and most of them once.
func TestWhatNobodyAsksForIsForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	all := newTokens(nil, redact.New(), func() time.Time { return now })
	all.slots = map[tokenKey]*slot{
		{repo: 1}: {}, // released
		{repo: 2}: {refused: errors.New("suspended"), until: now.Add(-time.Second)},
		{repo: 3}: {refused: errors.New("suspended"), until: now.Add(time.Second)},
		{repo: 4}: {mint: &mint{}},
		{repo: 5}: {token: &token{expires: now.Add(time.Second)}},
		{repo: 6}: {token: &token{expires: now, forget: func() {}}},
	}
	all.sweep(now)
	for id, want := range map[int64]bool{1: false, 2: false, 3: true, 4: true, 5: true, 6: false} {
		if _, got := all.slots[tokenKey{repo: id}]; got != want {
			t.Errorf("repository %d is remembered: %v, want %v", id, got, want)
		}
	}
}
