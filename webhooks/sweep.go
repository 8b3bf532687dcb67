package webhooks

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// SweepReach is how far back GitHub's delivery log is worth reading: it keeps about three days (oxidecomputer/buildomat#109).
const SweepReach = 72 * time.Hour

// Attempt is one line of the App's delivery log: one try to deliver, by GitHub itself or because somebody asked for it.
type Attempt struct {
	ID     int64  // of this attempt; asking again names it
	GUID   string // of the delivery, the same for every attempt
	At     time.Time
	Status int // of the answer that GitHub got; 5xx of its own where it got none
}

func (a Attempt) arrived() bool { return a.Status >= 200 && a.Status < 300 }

// patience is how long a delivery that has failed so many times is left alone before it is asked for again. A defect of
// ours would otherwise be met every few minutes for three days.
var patience = []time.Duration{0, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour}

// Failed groups a delivery log by delivery, and gives the newest attempt of each that never arrived and is worth another
// try now, the oldest first. Whether we have such a delivery all the same is for the caller to look up: GitHub also counts
// as failed what was stored and whose answer was lost (iii-hq/workers#1208).
func Failed(log []Attempt, now time.Time) []Attempt {
	type group struct {
		newest  Attempt
		tries   int
		arrived bool
	}
	groups := map[string]*group{}
	for _, a := range log {
		a.GUID = strings.ToLower(a.GUID)
		g := groups[a.GUID]
		if g == nil {
			g = &group{newest: a}
			groups[a.GUID] = g
		}
		g.tries++
		g.arrived = g.arrived || a.arrived()
		if a.At.After(g.newest.At) || a.At.Equal(g.newest.At) && a.ID > g.newest.ID {
			g.newest = a
		}
	}
	var failed []Attempt
	for _, g := range groups {
		wait := patience[min(g.tries, len(patience))-1]
		if !g.arrived && !now.Before(g.newest.At.Add(wait)) {
			failed = append(failed, g.newest)
		}
	}
	slices.SortFunc(failed, func(a, b Attempt) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return failed
}
