package webhooks

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// slowLog takes its time, and counts how many deliveries are in memory meanwhile.
type slowLog struct {
	memoryLog
	mu        sync.Mutex
	now, most int
}

func (l *slowLog) Put(ctx context.Context, d Delivery) (bool, error) {
	l.count(1)
	defer l.count(-1)
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
	return l.memoryLog.Put(ctx, d)
}

func (l *slowLog) count(by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += by
	l.most = max(l.most, l.now)
}

// TestFlood: however many deliveries come at once, only so many are in memory, and senders who say nothing keep nobody out for long.
func TestFlood(t *testing.T) {
	t.Parallel()
	log := &slowLog{}
	made, err := Handler(Options{Secrets: secrets(newSecret), Log: log, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h := made.(*handler)
	h.seats = make(chan struct{}, 2)
	server := httptest.NewServer(h)
	defer server.Close()
	for range cap(h.seats) {
		silent, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		if _, err := fmt.Fprintf(silent, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: %s\r\nContent-Length: 100\r\n\r\n{", deliveryID); err != nil {
			t.Fatal(err)
		}
	}
	in := &intake{url: server.URL}
	body := example(t, "issues/labeled-1")
	var all sync.WaitGroup
	for i := range 20 {
		r := in.request(t, "issues", body)
		r.Header.Set("X-GitHub-Delivery", fmt.Sprintf("%s%02d", deliveryID[:len(deliveryID)-2], i))
		all.Go(func() {
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusAccepted {
				t.Errorf("delivery %d: %d %s", i, answer.StatusCode, text)
			}
		})
	}
	all.Wait()
	if log.most > cap(h.seats) || len(log.kept) != 20 {
		t.Errorf("%d deliveries kept, %d at once; want 20, and %d at most", len(log.kept), log.most, cap(h.seats))
	}
}
