package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOneHostAtATimeHasADuty(t *testing.T) { onBoth(t, testDuty) }

func testDuty(t *testing.T, s *Store) {
	if d, err := s.Duty(t.Context(), "sweep"); err != nil || d != (Duty{}) {
		t.Errorf("before anybody took it: %+v, %v", d, err)
	}
	for _, step := range []struct {
		host string
		at   time.Duration
		want bool
	}{
		{"a", 0, true}, {"b", time.Minute, false}, {"a", time.Minute, true}, {"b", 5 * time.Minute, false}, {"b", 11 * time.Minute, true}, {"a", 12 * time.Minute, false},
	} {
		now := noon.Add(step.at)
		got, err := s.TakeDuty(t.Context(), "sweep", step.host, now, now.Add(10*time.Minute))
		if err != nil || got != step.want {
			t.Errorf("%s after %s: %v, %v, want %v", step.host, step.at, got, err, step.want)
		}
	}
	for _, host := range []string{"b", "a"} { // the second no longer has it, and its word does not count
		if err := s.DutyDone(t.Context(), "sweep", host, "by "+host, noon); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Duty(t.Context(), "sweep")
	if diff := cmp.Diff(Duty{Holder: "b", Done: noon, Result: "by b"}, got); diff != "" || err != nil {
		t.Errorf("duty (-want +got), %v:\n%s", err, diff)
	}
}
