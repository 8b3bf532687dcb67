package places

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// queued is a mission in the line for a place.
type queued struct {
	store.Place
	fits bool // its repository and installation have a place left
	// How many missions its installation and its repository have then, counting those before it in the line.
	ofInstallation, ofRepository int
}

// line puts those who wait in order: whose installation has the fewest sandboxes is next, then whose repository has, then who
// has waited longest, so that nobody who is noisy starves the others. It counts as if all who are before it had begun, and so
// takes one sort instead of one for each of them: within a repository and within an installation the counts only grow.
// Those whose repository or installation is full are behind all others, since they cannot begin before a place there is free.
func line(all []store.Place, most Limits) []queued {
	repositories, installations := map[int64]int{}, map[int64]int{}
	var waiting []queued
	for _, p := range all {
		if p.Host == "" {
			waiting = append(waiting, queued{Place: p})
		} else {
			repositories[p.RepositoryID]++
			installations[p.InstallationID]++
		}
	}
	slices.SortFunc(waiting, func(a, b queued) int {
		return cmp.Or(a.ReadyAt.Compare(b.ReadyAt), strings.Compare(a.ID, b.ID))
	})
	for i := range waiting {
		q := &waiting[i]
		q.ofRepository = repositories[q.RepositoryID]
		q.fits = q.ofRepository < most.Repository
		repositories[q.RepositoryID]++
	}
	slices.SortStableFunc(waiting, func(a, b queued) int {
		return cmp.Or(fullLast(a, b), cmp.Compare(a.ofRepository, b.ofRepository))
	})
	for i := range waiting {
		q := &waiting[i]
		q.ofInstallation = installations[q.InstallationID]
		q.fits = q.fits && q.ofInstallation < most.Installation
		installations[q.InstallationID]++
	}
	slices.SortStableFunc(waiting, func(a, b queued) int {
		return cmp.Or(fullLast(a, b), cmp.Compare(a.ofInstallation, b.ofInstallation), cmp.Compare(a.ofRepository, b.ofRepository),
			a.ReadyAt.Compare(b.ReadyAt), strings.Compare(a.ID, b.ID))
	})
	return waiting
}

func fullLast(a, b queued) int {
	switch {
	case a.fits == b.fits:
		return 0
	case a.fits:
		return -1
	}
	return 1
}
