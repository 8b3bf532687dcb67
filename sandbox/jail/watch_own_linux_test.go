package jail

import (
	"os"
	"testing"
)

// A tree in our own namespace cannot be told from ourselves: pausing it would pause us and everybody else.
func TestWatchNeverPausesItsOwnNamespace(t *testing.T) {
	t.Parallel()
	w := newWatch(Spec{}, Limits{}, false, os.Getpid())
	if pids := w.processes(); len(pids) > 0 {
		t.Errorf("the watcher takes %d processes for the tree's, ourselves among them", len(pids))
	}
}
