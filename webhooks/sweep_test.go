package webhooks

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFailed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tt := range map[string]struct {
		log  []Attempt
		want []int64
	}{
		"Nothing":                 {nil, nil},
		"Arrived":                 {[]Attempt{{1, "a", ago(time.Hour), 202}}, nil},
		"FailedOnce":              {[]Attempt{{1, "a", ago(time.Second), 502}}, []int64{1}},
		"NoAnswer":                {[]Attempt{{1, "a", ago(time.Second), 0}}, []int64{1}},
		"FailedThenArrived":       {[]Attempt{{2, "a", ago(time.Minute), 202}, {1, "a", ago(time.Hour), 502}}, nil},
		"ArrivedThenFailed":       {[]Attempt{{2, "a", ago(time.Minute), 502}, {1, "a", ago(time.Hour), 202}}, nil},
		"FailedTwiceJustNow":      {[]Attempt{{2, "a", ago(time.Minute), 502}, {1, "a", ago(time.Hour), 502}}, nil},
		"FailedTwiceAWhileAgo":    {[]Attempt{{2, "a", ago(6 * time.Minute), 502}, {1, "a", ago(time.Hour), 502}}, []int64{2}},
		"CaseOfTheGUID":           {[]Attempt{{2, "AB", ago(time.Minute), 202}, {1, "ab", ago(time.Hour), 502}}, nil},
		"OldestFirst":             {[]Attempt{{3, "c", ago(time.Minute), 502}, {2, "b", ago(2 * time.Minute), 401}, {1, "a", ago(3 * time.Minute), 500}}, []int64{1, 2, 3}},
		"SameSecondNewestByID":    {[]Attempt{{1, "a", ago(time.Hour), 502}, {2, "a", ago(time.Hour), 502}}, []int64{2}},
		"FailedManyTimesIsRare":   {[]Attempt{{1, "a", ago(9 * time.Hour), 500}, {2, "a", ago(8 * time.Hour), 500}, {3, "a", ago(7 * time.Hour), 500}, {4, "a", ago(6 * time.Hour), 500}, {5, "a", ago(5 * time.Hour), 500}, {6, "a", ago(4 * time.Hour), 500}}, nil},
		"FailedManyTimesIsNotOff": {[]Attempt{{1, "a", ago(29 * time.Hour), 500}, {2, "a", ago(28 * time.Hour), 500}, {3, "a", ago(27 * time.Hour), 500}, {4, "a", ago(26 * time.Hour), 500}, {5, "a", ago(25 * time.Hour), 500}, {6, "a", ago(24 * time.Hour), 500}}, []int64{6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []int64
			for _, a := range Failed(tt.log, now) {
				got = append(got, a.ID)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("asked for again (-want +got):\n%s", diff)
			}
		})
	}
}
