package store_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/fixtures/payloads"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

const (
	benchSecret  = "a webhook secret for benchmarks"
	benchConns   = 32
	benchPayload = 20_000 // bytes; deliveries of issues have 14 to 30 KB
	benchRounds  = 4
	benchTime    = 2 * time.Second
)

// floor is the least that a durable intake can do: verify the signature and append to a log, with one fdatasync for all that
// came at the same time.
type floor struct {
	file *os.File
	turn chan struct{}
	mu   sync.Mutex
	next *flush
}

type flush struct {
	data []byte
	done chan struct{}
	err  error
}

func newFloor(dir string) (*floor, error) {
	file, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &floor{file: file, turn: make(chan struct{}, 1), next: &flush{done: make(chan struct{})}}, err
}

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhooks.MaxBody))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	mac := hmac.New(sha256.New, []byte(benchSecret))
	mac.Write(body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); !hmac.Equal([]byte(want), []byte(r.Header.Get("X-Hub-Signature-256"))) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	f.mu.Lock()
	mine := f.next
	mine.data = binary.LittleEndian.AppendUint32(mine.data, uint32(len(body)))
	mine.data = append(append(mine.data, r.Header.Get("X-GitHub-Delivery")...), body...)
	f.mu.Unlock()
	select {
	case <-mine.done:
	case f.turn <- struct{}{}:
		f.mu.Lock()
		now := f.next
		if now == mine {
			f.next = &flush{done: make(chan struct{})}
		}
		f.mu.Unlock()
		if now == mine {
			if _, mine.err = f.file.Write(mine.data); mine.err == nil {
				mine.err = unix.Fdatasync(int(f.file.Fd()))
			}
			close(mine.done)
		}
		<-f.turn
	}
	<-mine.done
	if mine.err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// BenchmarkIntake sets the bot's intake beside that floor, in turns in one run, with 32 connections and deliveries of 20 KB.
// Its figures are ratios, because those are what another machine can repeat.
func BenchmarkIntake(b *testing.B) {
	body, signature := benchDelivery(b)
	var floors, ours []round
	for range b.N {
		for range benchRounds {
			dir := b.TempDir()
			least, err := newFloor(dir)
			if err != nil {
				b.Fatal(err)
			}
			floors = append(floors, measure(b, least, body, signature))
			least.file.Close()
			ours = append(ours, measureBot(b, dir, body, signature))
		}
	}
	rate := func(r round) float64 { return r.rate }
	f, o := median(floors, rate), median(ours, rate)
	b.ReportMetric(o, "deliveries/s")
	b.ReportMetric(f, "floor/s")
	b.ReportMetric(o/f, "of-floor")
	b.ReportMetric(median(ours, func(r round) float64 { return r.p50 }), "p50-ms")
	b.ReportMetric(median(ours, func(r round) float64 { return r.p99 / r.p50 }), "p99/p50")
	b.ReportMetric(0, "ns/op")
}

func benchDelivery(b *testing.B) (body []byte, signature string) {
	var text []byte
	for _, p := range payloads.All() {
		if p.Event == "issues" && bytes.Contains(p.Body, []byte(`"labeled"`)) {
			text = p.Body
			break
		}
	}
	key := []byte(`"body":"`)
	compact := bytes.ReplaceAll(text, []byte(`"body": "`), key)
	at := bytes.Index(compact, key) + len(key)
	body = slices.Concat(compact[:at], prose(benchPayload-len(compact)), compact[at:])
	mac := hmac.New(sha256.New, []byte(benchSecret))
	mac.Write(body)
	return body, "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// prose is text that compresses about as badly as what people write: words in an order by chance.
func prose(size int) []byte {
	var words []string
	for _, p := range payloads.All() {
		words = append(words, strings.FieldsFunc(string(p.Body), func(r rune) bool { return r < 'A' || r > 'z' || r > 'Z' && r < 'a' })...)
	}
	slices.Sort(words)
	words = slices.Compact(words)
	rng := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for len(text) < size {
		text = append(append(text, words[rng.IntN(len(words))]...), ' ')
	}
	return text[:max(size, 0)]
}

func measureBot(b *testing.B, dir string, body []byte, signature string) round {
	s, err := store.Open(context.Background(), filepath.Join(dir, "bot.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	handler, err := webhooks.Handler(webhooks.Options{
		Secrets: []redact.Secret{redact.NewSecret(benchSecret)}, Log: s, Clock: time.Now, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	return measure(b, handler, body, signature)
}

// round is one measurement: deliveries a second, and how long they took in milliseconds.
type round struct{ rate, p50, p99 float64 }

func median(rounds []round, of func(round) float64) float64 {
	var values []float64
	for _, r := range rounds {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// measure posts deliveries over 32 connections, each with an id of its own, for a time.
func measure(b *testing.B, handler http.Handler, body []byte, signature string) round {
	server := httptest.NewServer(handler)
	defer server.Close()
	until := time.Now().Add(benchTime)
	var mu sync.Mutex
	var times []float64
	var clients sync.WaitGroup
	for c := range benchConns {
		clients.Go(func() {
			mine, err := post(server.Listener.Addr().String(), c, until, body, signature)
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
		})
	}
	began := until.Add(-benchTime)
	clients.Wait()
	if len(times) == 0 {
		b.Fatal("nothing was delivered")
	}
	slices.Sort(times)
	return round{float64(len(times)) / time.Since(began).Seconds(), times[len(times)/2], times[len(times)*99/100]}
}

func post(addr string, client int, until time.Time, body []byte, signature string) (times []float64, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for n := 0; time.Now().Before(until); n++ {
		head := fmt.Sprintf("POST /webhook HTTP/1.1\r\nHost: bot\r\nContent-Type: application/json\r\nX-GitHub-Event: issues\r\nX-GitHub-Delivery: %08x-0000-4000-8000-%012x\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n", client, n, signature, len(body))
		began := time.Now()
		if _, err := (&net.Buffers{[]byte(head), body}).WriteTo(conn); err != nil {
			return times, err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return times, err
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusAccepted {
			return times, fmt.Errorf("answer %s", answer.Status)
		}
		times = append(times, float64(time.Since(began).Microseconds())/1000)
	}
	return times, nil
}
