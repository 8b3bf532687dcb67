package mission

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
)

// broken is a GitHub with a defect of ours in it.
type broken struct{ *hub }

func (broken) Client(context.Context, installation.Repo, installation.Purpose) (*github.Client, error) {
	panic("who wrote this")
}

// logged gives what an engine logs under a message.
func logged(e *Engine, message string) func() []map[string]any {
	var text bytes.Buffer
	e.Log = slog.New(slog.NewJSONHandler(&text, nil))
	return func() (lines []map[string]any) {
		for line := range strings.Lines(text.String()) {
			var l map[string]any
			if json.Unmarshal([]byte(line), &l) == nil && l["msg"] == message {
				lines = append(lines, l)
			}
		}
		return lines
	}
}

// TestADefectIsLoggedWithItsPlace, and is three failures of the step before it ends the work.
func TestADefectIsLoggedWithItsPlace(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	e := newEngine(t, h)
	e.GitHub = broken{h}
	panics := logged(e, "panic")
	m := e.begun(t, stepTake)
	for range outcome.MostDefects {
		if m.Outcome != "" {
			t.Fatalf("it ended too early: %s", m.Message)
		}
		if err := e.once(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if m.Outcome != string(outcome.Infrastructure) || !strings.Contains(m.Message, "a defect of its own") {
		t.Errorf("%s: %s", m.Outcome, m.Message)
	}
	lines := panics()
	if len(lines) != outcome.MostDefects {
		t.Fatalf("%d panics are logged, want %d", len(lines), outcome.MostDefects)
	}
	if stack, _ := lines[0]["stack"].(string); !strings.Contains(stack, "takeIssue") || lines[0]["mission"] != "m-1" || lines[0]["panic"] != "who wrote this" {
		t.Errorf("the log says %v", lines[0])
	}
}

func TestADefectInADeliveryIsLoggedWithItsPlace(t *testing.T) {
	t.Parallel()
	e := newEngine(t, newHub(t, nil))
	panics := logged(e, "panic")
	func() {
		defer e.survive("delivery d-1")
		panic("who wrote this")
	}()
	lines := panics()
	if len(lines) != 1 {
		t.Fatalf("%d panics are logged", len(lines))
	}
	if stack, _ := lines[0]["stack"].(string); !strings.Contains(stack, "TestADefectInADelivery") || lines[0]["at"] != "delivery d-1" {
		t.Errorf("the log says %v", lines[0])
	}
}
