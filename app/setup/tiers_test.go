package setup

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

func TestTiers(t *testing.T) {
	t.Parallel()
	seen := map[string]probe.Result{
		"overlay": {Verdict: probe.Pass, Tier: probe.Colleague, Lowered: []string{"runs share the object store", "no control group holds the limit of memory"},
			Watched: []string{"memory"}},
		"worktree": {Verdict: probe.Breach, Probes: []probe.Outcome{{Name: "marker", Verdict: probe.Breach, Why: []string{"a marker was written to /usr"}}}},
		"container": {Verdict: probe.Inconclusive, Unavailable: true, Probes: []probe.Outcome{{Name: "marker", Verdict: probe.Inconclusive,
			Why: []string{"it could not be tried: a container needs root here"}}}},
	}
	strong := map[string]probe.Result{"overlay": seen["overlay"], "worktree": seen["worktree"], "container": {Verdict: probe.Pass, Tier: probe.Outsider}}
	for _, c := range []struct {
		name, check string
		seen        map[string]probe.Result
		status      Status
		says        string
	}{
		{"a limit that is watched", "backend overlay", seen, Warn, "no control group holds the limit of memory -> the limit of memory is watched"},
		{"a breach", "backend worktree", seen, Fail, "a marker was written to /usr -> it takes no work"},
		{"one that is not there", "backend container", seen, Skip, "needs root"},
		{"no outsiders", "tasks by outsiders", seen, Warn, "are refused"},
		{"a strong one", "backend container", strong, OK, "tier outsider"},
		{"outsiders", "tasks by outsiders", strong, OK, "run by container"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			settings, err := config.Load([]string{"SANDPIPER_STATE_DIR=" + t.TempDir()})
			must(t, err)
			d := &Doctor{Config: settings, Probe: func(_ context.Context, name string) probe.Result { return c.seen[name] }}
			r := &Report{Checks: d.tiers(t.Context())}
			for _, got := range r.Checks {
				if got.Name == c.check && (got.Status != c.status || !strings.Contains(detail(r, c.check), c.says)) {
					t.Errorf("got %+v, want %s and %q", got, c.status, c.says)
				}
			}
			if len(r.Checks) != 4 {
				t.Errorf("%d checks", len(r.Checks))
			}
		})
	}
}

func TestHowToComeToAControlGroup(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	if unified(mount) { // version 1, where this file is not there
		t.Error("version 1 taken for 2")
	}
	controllers := filepath.Join(mount, "cgroup.controllers")
	must(t, os.WriteFile(controllers, []byte("\n"), 0o600)) // a hybrid: version 2 without controllers
	if unified(mount) {
		t.Error("a hierarchy without controllers taken for one that has memory")
	}
	must(t, os.WriteFile(controllers, []byte("cpuset cpu io memory pids\n"), 0o600))
	if !unified(mount) || !strings.Contains(delegation(1000, true), "Delegate=yes") {
		t.Error("version 2 not known")
	}
}
