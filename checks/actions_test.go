package checks

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestButtons are there however the run is completed: in one call that creates it, or by an update. A success has none.
func TestButtons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		conclusion Conclusion
		queued     bool
		want       bool
	}{
		"created at its end": {Failure, false, true},
		"updated":            {Failure, true, true},
		"passed":             {Success, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.queued {
				_, err := w.reporter.Queue(t.Context(), w.gh, w.target, w.key)
				must(t, err)
			}
			res := failed(nil)
			res.Conclusion, res.Actions = c.conclusion, []string{ActionFix, ActionKeep, ActionRetry}
			run, err := w.reporter.Complete(t.Context(), w.gh, w.target, w.key, res)
			must(t, err)
			for _, id := range []string{ActionRetry, ActionFix, ActionKeep} {
				err := w.server.RequestAction(w.target.Owner+"/"+w.target.Repo, run.GetID(), id, w.target.Owner)
				if diff := cmp.Diff(c.want, err == nil); diff != "" {
					t.Errorf("button %s: %v (-want +got)\n%s", id, err, diff)
				}
			}
		})
	}
	for _, a := range actions {
		if len(a.Identifier) > 20 || len(a.Label) > 20 || len(a.Description) > 40 {
			t.Errorf("too long for GitHub: %v", a)
		}
	}
}
