package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEffectsByTheirBeginning(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		for _, key := range []string{"gate:a_b:1", "gate:a_b:2", "gate:axb:1", "gate:A_B:1", "gate:a_b;"} {
			if err := s.AddEffect(ctx, key, 0, noon); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Effects(ctx, "gate:a_b:")
		if diff := cmp.Diff([]string{"gate:a_b:1", "gate:a_b:2"}, got); diff != "" || err != nil {
			t.Errorf("effects: %v (-want +got):\n%s", err, diff)
		}
		if n, err := s.EffectsSince(ctx, "gate:a_b:", noon); n != 2 || err != nil {
			t.Errorf("%d effects, %v; want 2", n, err)
		}
	})
}

func TestEffectsAreForgottenUnlessAMissionIsOlder(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		m := mission("m-1", "delivery:a")
		m.CreatedAt = noon
		if err := s.Begin(ctx, m); err != nil {
			t.Fatal(err)
		}
		for key, at := range map[string]time.Time{"old": noon.Add(-time.Hour), "its": noon.Add(time.Hour), "new": noon.Add(9 * time.Hour)} {
			if err := s.AddEffect(ctx, key, 0, at); err != nil {
				t.Fatal(err)
			}
		}
		forget := func(want int64) {
			t.Helper()
			if n, err := s.ForgetEffects(ctx, noon.Add(8*time.Hour)); n != want || err != nil {
				t.Errorf("%d forgotten, %v; want %d", n, err, want)
			}
		}
		forget(1)
		m.EndedAt = noon.Add(2 * time.Hour)
		if err := s.Save(ctx, m, m.EndedAt); err != nil {
			t.Fatal(err)
		}
		forget(1)
		if _, kept, err := s.Effect(ctx, "new"); !kept || err != nil {
			t.Errorf("what is new is there: %v, %v", kept, err)
		}
	})
}
