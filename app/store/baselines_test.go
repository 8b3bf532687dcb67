package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBaselinesByTheAgeOfTheirCommits(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		of := func(key, commit string, age, ago time.Duration) Baseline {
			return Baseline{Repository: 7, Key: key, Commit: commit, CommittedAt: noon.Add(-age), At: noon.Add(-ago), Seen: "{}"}
		}
		old, young := of("k", "a", 2*time.Hour, 0), of("k", "b", time.Hour, time.Minute)
		newer, other := of("k", "c", -time.Hour, 0), of("l", "a", 2*time.Hour, 0)
		for _, b := range []Baseline{old, young, newer, other} {
			if err := s.SaveBaseline(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		young.At, young.Seen = noon, `{"failed":true}`
		if err := s.SaveBaseline(ctx, young); err != nil {
			t.Fatal(err)
		}
		got, err := s.Baselines(ctx, 7, "k", noon)
		if diff := cmp.Diff([]Baseline{young, old}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		if none, err := s.Baselines(ctx, 8, "k", noon); len(none) > 0 || err != nil {
			t.Errorf("of another repository: %v, %v", none, err)
		}
		late := of("l", "d", 0, -91*24*time.Hour)
		if err := s.SaveBaseline(ctx, late); err != nil {
			t.Fatal(err)
		}
		if left, err := s.Baselines(ctx, 7, "k", noon); len(left) > 0 || err != nil {
			t.Errorf("not forgotten: %v, %v", left, err)
		}
	})
}
