package places

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// waits is a mission that has waited since a number of seconds after noon.
func waits(id string, installation, repository int64, since int) store.Place {
	return store.Place{ID: id, InstallationID: installation, RepositoryID: repository, ReadyAt: noon.Add(time.Duration(since) * time.Second)}
}

func works(installation, repository int64, host string) store.Place {
	return store.Place{InstallationID: installation, RepositoryID: repository, Host: host}
}

func ids(line []queued) (ids []string) {
	for _, q := range line {
		ids = append(ids, q.ID)
	}
	return ids
}

func TestLineIsFair(t *testing.T) {
	t.Parallel()
	all := []store.Place{
		waits("noisy-1", 1, 10, 0), waits("noisy-2", 1, 10, 1), waits("noisy-3", 1, 11, 2), waits("noisy-4", 1, 10, 3),
		waits("quiet", 2, 20, 9), works(1, 12, "here"),
	}
	got := ids(line(all, Limits{Repository: 9, Installation: 9}))
	if diff := gocmp.Diff([]string{"quiet", "noisy-1", "noisy-3", "noisy-2", "noisy-4"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLineHasWhoCannotBeginAtItsEnd(t *testing.T) {
	t.Parallel()
	all := []store.Place{
		works(1, 10, "elsewhere"), waits("full-repository", 1, 10, 0), waits("may", 1, 11, 5), waits("full-installation", 1, 12, 6), waits("other", 2, 20, 7),
	}
	line := line(all, Limits{Repository: 1, Installation: 2})
	if diff := gocmp.Diff([]string{"other", "may", "full-installation", "full-repository"}, ids(line)); diff != "" {
		t.Error(diff)
	}
	for i, q := range line {
		if q.fits != (i < 2) {
			t.Errorf("%s: fits %v", q.ID, q.fits)
		}
	}
}

// oneByOne is the rule word by word: who is next is looked for anew after each that begins.
func oneByOne(all []store.Place) (order []string) {
	repositories, installations := map[int64]int{}, map[int64]int{}
	var waiting []store.Place
	for _, p := range all {
		if p.Host == "" {
			waiting = append(waiting, p)
			continue
		}
		repositories[p.RepositoryID]++
		installations[p.InstallationID]++
	}
	for len(waiting) > 0 {
		first := slices.MinFunc(waiting, func(a, b store.Place) int {
			return cmp.Or(cmp.Compare(installations[a.InstallationID], installations[b.InstallationID]), cmp.Compare(repositories[a.RepositoryID], repositories[b.RepositoryID]),
				a.ReadyAt.Compare(b.ReadyAt), strings.Compare(a.ID, b.ID))
		})
		waiting = slices.DeleteFunc(waiting, func(p store.Place) bool { return p.ID == first.ID })
		order = append(order, first.ID)
		repositories[first.RepositoryID]++
		installations[first.InstallationID]++
	}
	return order
}

func crowd(rng *rand.Rand, n int) (all []store.Place) {
	for i := range n {
		installation := rng.Int64N(5)
		repository := 10*installation + rng.Int64N(4)
		if rng.IntN(4) == 0 {
			all = append(all, works(installation, repository, "here"))
			continue
		}
		all = append(all, waits(fmt.Sprintf("m-%d", i), installation, repository, rng.IntN(n)))
	}
	return all
}

func TestLineIsTheRuleWordByWord(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		all := crowd(rng, 1+rng.IntN(40))
		if diff := gocmp.Diff(oneByOne(all), ids(line(all, Limits{Repository: 1000, Installation: 1000}))); diff != "" {
			t.Fatalf("%+v\n%s", all, diff)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	most := Limits{Host: 2, Repository: 1, Installation: 9}
	told := waits("told", 1, 14, 4)
	told.Position = 25
	busy := waits("busy", 1, 10, 0)
	busy.Busy = true
	all := []store.Place{
		works(2, 20, "here"), works(2, 21, "elsewhere"), busy,
		waits("first", 1, 11, 1), waits("second", 1, 12, 2), waits("third", 1, 13, 3), told, waits("new", 1, 15, 60),
	}
	for name, tt := range map[string]struct {
		self string
		want store.Plan
	}{
		"somebody is at work on the first": {"", store.Plan{Begin: []string{"first"}, Tell: map[string]int{"second": 3, "third": 4}}},
		"which is we":                      {"busy", store.Plan{Begin: []string{"busy"}, Tell: map[string]int{"first": 2, "second": 3, "third": 4}}},
	} {
		got := Plan(all, most, "here", tt.self, noon.Add(time.Minute))
		if diff := gocmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// TestPositionsAreToldRarely has 1,000 missions begin one after the other: the last one's position changes 1,000 times.
func TestPositionsAreToldRarely(t *testing.T) {
	t.Parallel()
	most := Limits{Host: 1, Repository: 2000, Installation: 2000}
	var all []store.Place
	for i := range 1000 {
		all = append(all, waits(fmt.Sprintf("m-%04d", i), 1, 1, i))
	}
	told := 0
	for len(all) > 0 {
		plan := Plan(all, most, "here", "", noon.Add(time.Hour))
		for i := range all {
			if position, tell := plan.Tell[all[i].ID]; tell {
				all[i].Position = position
				told++
			}
		}
		all = slices.DeleteFunc(all, func(p store.Place) bool { return slices.Contains(plan.Begin, p.ID) })
	}
	if told > 4*1000 {
		t.Errorf("positions were told %d times for 1,000 missions, want at most 4 each", told)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			all := crowd(rand.New(rand.NewPCG(1, 2)), n)
			most := Limits{Host: n, Repository: 2, Installation: 10}
			for b.Loop() {
				Plan(all, most, "here", "", noon.Add(time.Hour))
			}
		})
	}
}
