package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// calls are the calls that GitHub has seen, by method and pattern.
func (w *world) calls() map[string]int {
	w.t.Helper()
	answer := must1(http.Get(w.double.URL() + "/_double/calls"))(w.t)
	defer answer.Body.Close()
	var all map[string]int
	must(w.t, json.NewDecoder(answer.Body).Decode(&all))
	return all
}

// mostCalls is how many calls a mission with two checks may cost, by the page on the architecture.
const mostCalls = 20

// TestCallsOfAMission holds the table of calls in docs/architecture.md to what is called. Mints of tokens are apart, with the
// one call each that tries the new token; git is no API call. The first mission of a bot asks once for the bot's own
// account, so it is the second one that counts.
func TestCallsOfAMission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("sleep 10\n"+fixes))   // an agent that takes seconds is none that a mission's cost could be told of
	w.env = []string{"SANDPIPER_SWEEP_EVERY=1h"} // the first round, which looks for labels, is over when the first mission is
	w.start()
	waits := func(missions int) {
		w.until("the mission waits", func() bool { return strings.Count(w.bot.text(), `"next":"waiting"`) == missions })
	}
	w.label("octavia", w.openIssue("The first", ""))
	waits(1)
	n := w.openIssue("The second", "")
	w.double.ResetCallCounts()
	before := len(w.bot.text())
	w.label("octavia", n)
	waits(2)
	slow := sawSlow(w.bot.text()[before:])
	got, total := map[string]int{}, 0
	for call, times := range w.calls() {
		switch {
		case strings.HasPrefix(call, "GIT "), strings.HasSuffix(call, "/access_tokens"):
			continue
		case call == "POST /repos/{owner}/{repo}/issues/{issue_number}/labels":
			times-- // the person's
		case strings.HasPrefix(call, "PATCH /repos/{owner}/{repo}/issues/comments/"), strings.HasSuffix(call, "/permission"):
			if slow { // on a machine that is very busy the page allows one more
				times = min(times, 1)
			}
		case call == "GET /repos/{owner}/{repo}":
			times -= w.calls()["POST /app/installations/{installation_id}/access_tokens"]
		}
		if times > 0 {
			got[call] = times
			total += times
		}
	}
	if total > mostCalls {
		t.Errorf("%d calls, want at most %d", total, mostCalls)
	}
	if diff := cmp.Diff(documentedCalls(t), got); diff != "" {
		t.Errorf("calls (-docs/architecture.md +a mission):\n%s", diff)
	}
}

// sawSlow says whether the steps before the agent took so long that the page allows more calls.
func sawSlow(log string) bool {
	var took time.Duration
	for line := range strings.Lines(log) {
		var done struct {
			Msg, Step string
			Took      time.Duration
		}
		if json.Unmarshal([]byte(line), &done) == nil && done.Msg == "step done" && (done.Step == "take" || done.Step == "create") {
			took += done.Took
		}
	}
	return took >= 3*time.Second
}

// documentedCalls reads the table of calls.
func documentedCalls(t *testing.T) map[string]int {
	t.Helper()
	page := string(must1(os.ReadFile("../../docs/architecture.md"))(t))
	calls := map[string]int{}
	for _, line := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]+)` \\| ([0-9]+) \\|").FindAllStringSubmatch(page, -1) {
		calls[line[1]] += must1(strconv.Atoi(line[2]))(t)
	}
	return calls
}

// TestAParkedAgentCostsNoCall has the bot come back to an agent that is still at work: what its comment says is known.
func TestAParkedAgentCostsNoCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("while [ ! -e /sandpiper/go ]; do sleep 0.1; done\n"+fixes))
	w.env = []string{"SANDPIPER_SWEEP_EVERY=1h"}
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.until("the agent works", func() bool { return w.said(n, "the agent is at work") })
	w.double.ResetCallCounts()
	for range 3 {
		w.bot.kill()
		w.start()
		w.until("the bot is at it again", func() bool { return strings.Contains(w.bot.text(), "boundary holds") })
	}
	for _, task := range must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*/task")))(t) {
		must(t, os.WriteFile(filepath.Join(task, "go"), nil, 0o644))
	}
	w.ended(n, "changed")
	// The end, and what the first kill may have come before the record of.
	if got := w.calls()["PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"]; got > 2 {
		t.Errorf("the comment was edited %d times after three restarts, want at most twice", got)
	}
}
