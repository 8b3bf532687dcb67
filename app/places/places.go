// Package places decides who of those that wait begins next, and who is told how long the line is.
//
// It is arithmetic on what the database holds, so that it can be done in the transaction in which the places are given away. The
// package must not read or write anything, and knows of a mission only where it counts and how long it has waited.
package places

import (
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Limits bounds how many missions have a sandbox at the same time.
type Limits struct {
	Host         int // on this machine
	Repository   int // of one repository, on all machines
	Installation int // of one installation, on all machines
}

// impatient is how long a mission waits before its position is news to a person.
const impatient = 3 * time.Second

// Plan takes those from the front of the line for whom there is a place on host, and has those speak whose position is news: when
// they have waited for a while, and again when it is a tenth of what it was. Each edit is a call. self is the mission whose own step
// asks, if one does: it is busy with nothing else.
func Plan(all []store.Place, most Limits, host, self string, now time.Time) store.Plan {
	free := most.Host
	for _, p := range all {
		if p.Host == host {
			free--
		}
	}
	plan := store.Plan{Tell: map[string]int{}}
	for i, p := range line(all, most) {
		switch {
		case p.fits && free > 0 && (!p.Busy || p.ID == self):
			free--
			plan.Begin = append(plan.Begin, p.ID)
		case p.Busy || now.Sub(p.ReadyAt) < impatient:
		case p.Position == 0, i+1 <= p.Position/10:
			plan.Tell[p.ID] = i + 1
		}
	}
	return plan
}
