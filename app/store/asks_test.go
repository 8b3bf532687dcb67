package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhatIsAskedMeanwhileIsNotHeld: who says "fix" and "continue" in one comment asks for the second while the bot looks at the first.
func TestWhatIsAskedMeanwhileIsNotHeld(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		if err := s.Begin(ctx, mission("m-1", "delivery:a")); err != nil {
			t.Fatal(err)
		}
		ask := func(a Ask) {
			t.Helper()
			a.Mission, a.Login, a.At = "m-1", "octavia", noon
			if err := s.Ask(ctx, a, noon); err != nil {
				t.Fatal(err)
			}
		}
		ask(Ask{Key: "1:fix"})
		ask(Ask{Key: "2:again"})
		read, err := s.Asks(ctx, "m-1", 0)
		if err != nil {
			t.Fatal(err)
		}
		ask(Ask{Key: "3:continue", HandsBack: true, Head: "aaa"})
		ask(Ask{Key: "2:again", HandsBack: true, Head: "aaa"})
		if err := s.HoldAsks(ctx, read); err != nil {
			t.Fatal(err)
		}
		rounds := func() map[string]int {
			t.Helper()
			got := map[string]int{}
			for _, round := range []int{0, 2} {
				asks, err := s.Asks(ctx, "m-1", round)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range asks {
					got[a.Key] = a.Round
				}
			}
			return got
		}
		if diff := cmp.Diff(map[string]int{"1:fix": held, "2:again": 0, "3:continue": 0}, rounds()); diff != "" {
			t.Errorf("after the hold (-want +got)\n%s", diff)
		}
		if err := s.SettleAsks(ctx, "m-1", 2); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int{"1:fix": 2, "2:again": 2, "3:continue": 2}, rounds()); diff != "" {
			t.Errorf("after the round began (-want +got)\n%s", diff)
		}
	})
}
