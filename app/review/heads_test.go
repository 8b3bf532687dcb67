package review

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
)

// shownRuns is a reporter that keeps which heads have a gate that waits, and how often each was begun.
type shownRuns struct {
	waits map[string]bool
	begun map[string]int
}

func (r shownRuns) Gate(_ context.Context, _ *github.Client, t checks.Target, _ checks.ExternalID, _ checks.Gate) error {
	if !r.waits[t.HeadSHA] {
		r.begun[t.HeadSHA]++
	}
	r.waits[t.HeadSHA] = true
	return nil
}

func (r shownRuns) EndGate(_ context.Context, _ *github.Client, t checks.Target, _, _ string) error {
	delete(r.waits, t.HeadSHA)
	return nil
}

type noGitHub struct{}

func (noGitHub) Client(context.Context, installation.Repo, installation.Purpose) (*github.Client, error) {
	return nil, nil
}

// TestHeadsThatComeBack: a person pushes back and forth, and at each moment the gate waits on the live head and on no other.
func TestHeadsThatComeBack(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	runs := shownRuns{map[string]bool{}, map[string]int{}}
	g := &Gate{GitHub: noGitHub{}, Reporter: runs, Store: db, Now: time.Now}
	m := &store.Mission{ID: "m-1", Run: "r-1-1"}
	for i, head := range []string{"aaa", "bbb", "aaa", "bbb", "bbb", "ccc", "aaa"} {
		if err := g.show(t.Context(), m, head, false, checks.Gate{Title: "waiting"}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]bool{head: true}, runs.waits); diff != "" {
			t.Fatalf("push %d: what waits (-want +got)\n%s", i, diff)
		}
	}
	if diff := cmp.Diff(map[string]int{"aaa": 3, "bbb": 2, "ccc": 1}, runs.begun); diff != "" {
		t.Errorf("begun (-want +got)\n%s", diff)
	}
	if err := g.End(t.Context(), m, "", "closed"); err != nil || len(runs.waits) > 0 {
		t.Errorf("in the end %v waits: %v", runs.waits, err)
	}
}
