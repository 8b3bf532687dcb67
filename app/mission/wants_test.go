package mission

import (
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
)

// TestADiscardThatCannotCloseSaysSo: the mission ends with its sandbox all the same, and says what is left for the person.
func TestADiscardThatCannotCloseSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer   any
		failures int // before
		step     string
		says     string
	}{
		"closed":                  {map[string]any{"number": 9, "state": "closed"}, 0, stepClose, "discarded by octavia"},
		"not allowed to":          {403, 0, stepClose, "discarded by octavia; pull request #9 could not be closed, so close it there: GitHub refused: no"},
		"trouble for now":         {502, 0, stepWaiting, ""},
		"trouble for a long time": {502, outcome.MostTries, stepClose, "discarded by octavia; pull request #9 could not be closed"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, newHub(t, map[string]any{"PATCH /repos/acme/calc/pulls/9": c.answer}))
			m := e.begun(t, stepWaiting)
			m.Pull, m.Failures, m.Want, m.WantBy = 9, c.failures, wantDiscard, "octavia"
			if err := e.Store.Want(t.Context(), m.ID, m.Want, m.WantBy, noon); err != nil {
				t.Fatal(err)
			}
			if err := e.once(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			now, err := e.Store.Mission(t.Context(), m.ID)
			if err != nil {
				t.Fatal(err)
			}
			if now.Step != c.step || !strings.HasPrefix(now.Message, c.says) || (now.Message == "") != (c.says == "") || (now.Want == "") != (c.step == stepClose) {
				t.Errorf("step %q, message %q, want %q", now.Step, now.Message, now.Want)
			}
		})
	}
}
