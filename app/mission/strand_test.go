package mission

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// losesHost has the mission at work on a machine that was heard of too long ago, and the engine look for such.
func (e *Engine) losesHost(t *testing.T, attempt int) *store.Mission {
	t.Helper()
	m, err := e.Store.Mission(t.Context(), "m-1")
	if err != nil {
		t.Fatal(err)
	}
	m.Attempt, m.Step, m.Host = attempt, stepExecute, fmt.Sprintf("host-%d", attempt)
	m.Run = runID(m)
	if err := e.Store.Save(t.Context(), m, noon); err != nil {
		t.Fatal(err)
	}
	if err := e.Store.Beat(t.Context(), m.Host, m.Host, noon.Add(-2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := e.takeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m, err = e.Store.Mission(t.Context(), "m-1"); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRoundsAreNoLostMachines: a mission in its fifth round that loses a machine for the first time goes on. It ends when three in a row
// were lost.
func TestRoundsAreNoLostMachines(t *testing.T) {
	t.Parallel()
	e := newEngine(t, newHub(t, nil))
	e.begun(t, stepExecute)
	type seen struct {
		Step, Run, Outcome string
	}
	var got []seen
	for _, attempt := range []int{5, 6, 8, 9, 10} { // the seventh came to its end
		m := e.losesHost(t, attempt)
		got = append(got, seen{m.Step, m.Run, m.Outcome})
		if m.Host != "" {
			t.Fatalf("it is still on %s", m.Host)
		}
	}
	want := []seen{
		{stepQueue, "r-1-6", ""}, {stepQueue, "r-1-7", ""}, {stepQueue, "r-1-9", ""}, {stepQueue, "r-1-10", ""},
		{stepClose, "r-1-10", string(outcome.Infrastructure)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("missions after each loss (-want +got):\n%s", diff)
	}
}

// TestALossThatIsNotedTwiceCountsOnce: a bot may be killed between the note and the new attempt.
func TestALossThatIsNotedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t, newHub(t, nil))
	m := e.begun(t, stepExecute)
	for range mostHosts {
		if n, err := e.lose(t.Context(), m); n != 1 || err != nil {
			t.Fatalf("%d lost in a row, %v", n, err)
		}
	}
}

// TestALeaseThatCannotBeGivenBackIsTold: nobody would know why the mission lies for as long as the lease lasts.
func TestALeaseThatCannotBeGivenBackIsTold(t *testing.T) {
	t.Parallel()
	e := newEngine(t, newHub(t, nil))
	m := e.begun(t, stepExecute)
	m.Host = "gone"
	if err := e.Store.Save(t.Context(), m, noon); err != nil {
		t.Fatal(err)
	}
	e.Queue = &queue{added: func() { e.Store.Close() }}
	if err := e.strand(t.Context(), m); err == nil {
		t.Error("the lease is not given back, and nobody was told")
	}
}
