package main

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	gh "github.com/google/go-github/v60/github"
)

// TestTraceGoesOnAfterRestart: the bot sends steps by OTLP, and those of a mission that outlives a bot are one trace.
func TestTraceGoesOnAfterRestart(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.URL.Path == "/v1/traces" {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, body...)
		}
	}))
	t.Cleanup(collector.Close)
	// taken is what has been sent since it was asked last: protobuf, in which ids and names are as they are.
	taken := func() []byte {
		mu.Lock()
		defer mu.Unlock()
		all := sent
		sent = nil
		return all
	}
	w := newWorld(t, calc(held))
	w.env = append(w.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	w.start()
	n := w.atWork()
	if code := w.bot.stop(); code != 0 {
		t.Fatalf("exit status %d", code)
	}
	before := taken()
	w.start()
	id := w.only().ID
	w.goOn()
	w.ended(n, "changed")
	_, _, err := w.as("octavia").PullRequests.Edit(t.Context(), "acme", "calc", w.pulls()[0].GetNumber(), &gh.PullRequest{State: gh.String("closed")})
	must(t, err)
	w.closed()
	w.bot.stop()
	after := taken()
	sum := sha256.Sum256([]byte("sandpiper mission " + id))
	// Fields of a span (https://github.com/open-telemetry/opentelemetry-proto, trace.proto): 1 trace_id, 2 span_id, 5 name.
	field := func(number byte, value []byte) []byte {
		return append([]byte{number<<3 | 2, byte(len(value))}, value...)
	}
	trace := field(1, sum[:16])
	if !bytes.Contains(before, trace) || !bytes.Contains(before, field(5, []byte("create"))) {
		t.Errorf("nothing of the trace in %d bytes before the restart", len(before))
	}
	if !bytes.Contains(after, trace) || !bytes.Contains(after, field(5, []byte("promote"))) || !bytes.Contains(after, field(2, sum[16:24])) {
		t.Errorf("the trace does not go on, and end with its own span, in %d bytes after the restart", len(after))
	}
}
