package mission

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// stored is a delivery as it is claimed, of acme/calc, with what stands beside its installation and repository.
func stored(t *testing.T, e *Engine, event, action string, received time.Time, attempts int, more map[string]any) store.Delivery {
	t.Helper()
	body := map[string]any{
		"action": action, "installation": map[string]any{"id": 1}, "sender": map[string]any{"login": "octavia", "id": 5, "type": "User"},
		"repository": map[string]any{"id": 42, "name": "calc", "full_name": "acme/calc", "owner": map[string]any{"login": "acme"}},
	}
	for k, v := range more {
		body[k] = v
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	d := webhooks.Delivery{ID: "d-1", Event: event, Action: action, InstallationID: 1, RepositoryID: 42, ReceivedAt: received, Body: text}
	if _, err := e.Store.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	d.Body = text
	return store.Delivery{Delivery: d, Attempts: attempts}
}

func issue(state string, updated time.Time) map[string]any {
	return map[string]any{"number": 7, "state": state, "updated_at": updated, "user": map[string]any{"login": "octavia"}}
}

func wantOf(t *testing.T, e *Engine) string {
	t.Helper()
	m, err := e.Store.Mission(t.Context(), "m-1")
	if err != nil {
		t.Fatal(err)
	}
	return m.Want
}

func TestAClosedIssueEndsTheWorkUnlessItIsOpenAgain(t *testing.T) {
	t.Parallel()
	closed := noon.Add(-time.Second)
	for name, c := range map[string]struct {
		now  any
		want string
	}{
		"closed still":                      {issue("closed", closed), wantCancel},
		"open again":                        {issue("open", noon), ""},
		"an API that is behind":             {issue("open", closed.Add(-time.Minute)), wantCancel},
		"gone":                              {404, wantCancel},
		"out of the App's reach":            {403, wantCancel},
		"a GitHub that has trouble for now": {502, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, newHub(t, map[string]any{"GET /repos/acme/calc/issues/7": c.now}))
			e.begun(t, stepExecute)
			e.deliver(t.Context(), stored(t, e, "issues", "closed", noon, 0, map[string]any{"issue": issue("closed", closed)}))
			if got := wantOf(t, e); got != c.want {
				t.Errorf("the mission is asked %q, want %q", got, c.want)
			}
		})
	}
}

// A delivery is not lost over a GitHub that is away for hours: it is given up when it is a day old.
func TestADeliveryOutlastsAGitHubThatIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		received time.Time
		lost     bool
	}{
		"for hours":  {noon.Add(-20 * time.Hour), false},
		"for a week": {noon.AddDate(0, 0, -7), true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			h := newHub(t, map[string]any{"GET /repos/acme/calc/issues/7": issue("closed", noon)})
			e := newEngine(t, h)
			e.begun(t, stepExecute)
			d := stored(t, e, "issues", "closed", c.received, 250, map[string]any{"issue": issue("closed", noon)})
			h.leave(true)
			e.deliver(t.Context(), d)
			due, err := e.Store.NextDelivery(t.Context())
			if err != nil || due.IsZero() != c.lost {
				t.Fatalf("due at %v, %v; lost: want %v", due, err, c.lost)
			}
			if c.lost {
				return
			}
			h.leave(false)
			e.deliver(t.Context(), d)
			if got := wantOf(t, e); got != wantCancel {
				t.Errorf("the mission is asked %q once GitHub is back", got)
			}
		})
	}
}

// A command that nobody heard in time, and whose comment was deleted meanwhile, was taken back. One that is heard at once costs no look.
func TestACommandOfADeletedCommentIsNotObeyedLater(t *testing.T) {
	t.Parallel()
	const look = "GET /repos/acme/calc/issues/comments/9"
	for name, c := range map[string]struct {
		said time.Time
		now  any
		want string
	}{
		"there still":    {noon.Add(-30 * time.Second), map[string]any{"id": 9}, wantCancel},
		"deleted":        {noon.Add(-30 * time.Second), 404, ""},
		"heard at once":  {noon.Add(-time.Second), 404, wantCancel},
		"GitHub is away": {noon.Add(-30 * time.Second), 502, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, newHub(t, map[string]any{
				look: c.now, "GET /repos/acme/calc/collaborators/octavia/permission": map[string]any{"permission": "write"},
				"POST /repos/acme/calc/issues/7/comments": map[string]any{"id": 10},
			}))
			e.begun(t, stepExecute)
			e.deliver(t.Context(), stored(t, e, "issue_comment", "created", noon, 0, map[string]any{
				"issue": issue("open", noon),
				"comment": map[string]any{
					"id": 9, "body": "/sandpiper cancel", "created_at": c.said, "updated_at": c.said,
					"user": map[string]any{"login": "octavia", "id": 5, "type": "User"}, "author_association": "MEMBER",
				},
			}))
			if got := wantOf(t, e); got != c.want {
				t.Errorf("the mission is asked %q, want %q", got, c.want)
			}
			due, err := e.Store.NextDelivery(t.Context())
			if err != nil || due.IsZero() != (c.now != 502) {
				t.Errorf("it is due at %v, %v", due, err)
			}
		})
	}
}
