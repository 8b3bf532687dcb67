package broker

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// An API that repeats what it got does not hand the key out by that: neither in a good answer, nor cut in pieces, nor in a header, nor
// compressed. What it said outside is the control.
func TestKeyIsInNoAnswer(t *testing.T) {
	t.Parallel()
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return b.String()
	}
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, key string) (said string)
		status int
		want   string
	}{
		{"a good answer", func(w http.ResponseWriter, key string) string {
			fmt.Fprintf(w, `{"headers":{"X-Api-Key":"%s"},"again":"%[1]s%[1]s"}`, key)
			return key
		}, 200, `{"headers":{"X-Api-Key":"[secret]"},"again":"[secret][secret]"}`},
		{"a stream of single bytes", func(w http.ResponseWriter, key string) string {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, b := range []byte("data: sk-can " + key + "!\n\n" + key[:9]) {
				w.Write([]byte{b})
				http.NewResponseController(w).Flush()
			}
			return key
		}, 200, "data: sk-can [secret]!\n\nsk-canary"},
		{"headers", func(w http.ResponseWriter, key string) string {
			w.Header().Set("X-Request-Id", "for "+key)
			w.Header().Set("X-Ratelimit-Key", key)
			io.WriteString(w, "{}")
			return key
		}, 200, "{}"},
		{"compressed", func(w http.ResponseWriter, key string) string {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, zip(key))
			return key
		}, 502, "cannot be checked"},
		{"compressed error", func(w http.ResponseWriter, key string) string {
			w.Header().Set("Content-Encoding", "br")
			w.WriteHeader(401)
			io.WriteString(w, zip(key))
			return key
		}, 502, "cannot be checked"},
		{"an error cut in the key", func(w http.ResponseWriter, key string) string {
			w.WriteHeader(400)
			io.WriteString(w, strings.Repeat(" ", maxError-15)+key)
			return key
		}, 400, "  "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said := make(chan string, 1)
			w := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				said <- c.answer(w, r.Header.Get("X-Api-Key"))
			}), sandbox.Grant{})
			status, text, header := w.do("POST", "/model/anthropic/v1/messages", good)
			if control := <-said; control != canary {
				t.Fatalf("control: it said %q", control)
			}
			if status != c.status || !strings.Contains(text, c.want) {
				t.Errorf("%d %.300q", status, text)
			}
			if all := fmt.Sprint(text, header); strings.Contains(all, canary) || strings.Contains(all, canary[:12]) || strings.Contains(all, zip(canary)) {
				t.Errorf("went inside: %.300q", all)
			}
		})
	}
	// A word that is no key of any vendor is left in the work of a model of one's own.
	if got := keyless("the list is EMPTY", redact.NewSecret("EMPTY")); got != "the list is EMPTY" {
		t.Error(got)
	}
}

// What a vendor has begun to work on is paid, whenever the client leaves.
func TestLeavingBeforeTheAnswerIsNotFree(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	w := open(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
	}), sandbox.Grant{})
	body := `{"model":"claude-opus-5","messages":["` + strings.Repeat("x", 30_000) + `"]}`
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", w.url+ask[0].path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	go func() { <-began; leave() }()
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		t.Errorf("answered %s", resp.Status)
	}
	if r := w.records()[0]; w.spent.Input < 10_000 || w.spent.Money < 50_000 || w.spent.Requests != 1 || !r.Estimated {
		t.Errorf("spent %+v, %+v", w.spent, r)
	}
}

// A stream that tells the sum so far in each piece has not told all when it is cut.
func TestCutStreamPaysWhatCame(t *testing.T) {
	t.Parallel()
	w := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"usageMetadata\":{\"promptTokenCount\":700,\"candidatesTokenCount\":1}}\n\ndata: %s\n\n", strings.Repeat("x", 6000))
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}), sandbox.Grant{})
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+ask[7].path, strings.NewReader(ask[7].body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	w.close()
	if w.spent.Input != 700 || w.spent.Output < 2000 {
		t.Errorf("spent %+v", w.spent)
	}
}

// Sixty-four at once, where there is enough left for one: no matter what they may cost, the budget is passed by one of them at most.
func TestManyAtOncePassTheBudgetByOneCall(t *testing.T) {
	t.Parallel()
	const body = `{"model":"claude-opus-5","max_tokens":900,"messages":[]}`
	var inside, most atomic.Int64
	crowd := make(chan struct{})
	full := sync.OnceFunc(func() { close(crowd) })
	answer := func(w http.ResponseWriter, _ *http.Request) {
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer inside.Add(-1)
		if inside.Load() >= maxInFlight {
			full()
		}
		select { // without the hold the others come while this one is here
		case <-crowd:
		case <-time.After(200 * time.Millisecond):
		}
		io.WriteString(w, `{"usage":{"input_tokens":18,"output_tokens":900}}`)
	}
	for name, c := range map[string]struct {
		grant sandbox.Grant
		most  int64 // at the API at once
		spent sandbox.Spent
	}{
		"tokens":             {sandbox.Grant{Tokens: 1000}, 1, sandbox.Spent{Requests: 2, Input: 36, Output: 1800, Money: 45_180}},
		"money":              {sandbox.Grant{Money: 22_600}, 1, sandbox.Spent{Requests: 2, Input: 36, Output: 1800, Money: 45_180}},
		"requests":           {sandbox.Grant{Requests: 1}, 1, sandbox.Spent{Requests: 1, Input: 18, Output: 900, Money: 22_590}},
		"control: no limits": {sandbox.Grant{}, maxInFlight, sandbox.Spent{Requests: 64, Input: 64 * 18, Output: 64 * 900, Money: 64 * 22_590}},
	} {
		// One after the other: they count together.
		most.Store(0)
		w := open(t, http.HandlerFunc(answer), c.grant)
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() { w.do("POST", "/model/anthropic/v1/messages", body) })
		}
		all.Wait()
		w.close()
		if w.spent != c.spent || most.Load() > c.most {
			t.Errorf("%s: spent %+v, %d at once", name, w.spent, most.Load())
		}
	}
}

// A name that is in no list of prices, and a faster way to the same model, are no ways around a budget.
func TestPricesAreNotEvaded(t *testing.T) {
	t.Parallel()
	tokens := Tokens{Input: 1e6, Output: 1e6}
	at := func(name, url string) *upstream { return &upstream{api: apis[name], Upstream: Upstream{URL: url}} }
	for _, c := range []struct {
		up   *upstream
		body string
		want int64
	}{
		{at("anthropic", "https://api.anthropic.com"), `{"model":"claude-sonnet-4-6"}`, 18_000_000}, // the control
		{at("anthropic", "https://api.anthropic.com"), `{"model":"claude-unheard-of-9"}`, 60_000_000},
		{at("openai", "https://API.openai.com/"), `{"model":"o1-pro"}`, 330_000_000}, // a long prompt at that
		{at("openai", "https://models.example.com"), `{"model":"o1-pro"}`, 0},
		{at("anthropic", "https://api.anthropic.com"), `{"model":"claude-sonnet-4-6","speed":"fast"}`, 108_000_000},
		{at("anthropic", "https://api.anthropic.com"), `{"model":"claude-sonnet-4-6","metadata":{"speed":"fast"}}`, 18_000_000},
		{at("openai", "https://api.openai.com"), `{"model":"gpt-4.1","service_tier":"priority"}`, 25_000_000},
	} {
		in, err := anthropicInput.check([]byte(c.body))
		if got := c.up.cost(in, tokens); got != c.want || err != nil {
			t.Errorf("%s at %s: %d, want %d; %v", c.body, c.up.URL, got, c.want, err)
		}
	}
	for name, a := range apis {
		if priceOf(a.dearest).model == "" || a.host == "" {
			t.Errorf("%s: %q has no price", name, a.dearest)
		}
	}
	for body, want := range map[string][2]int64{
		`{"max_tokens":900,"n":3}`:                                      {900, 3},
		`{"generationConfig":{"maxOutputTokens":7,"candidateCount":2}}`: {7, 2},
		`{"max_tokens":-5,"n":1e99,"messages":[{"max_tokens":4}]}`:      {0, 0},
	} {
		if in, err := geminiInput.check([]byte(body)); [2]int64{in.output, in.times} != want || err != nil {
			t.Errorf("%s: %+v %v", body, in, err)
		}
	}
}

// The memory of this process is no command's to fill: bodies wait for each other.
func TestBodiesShareTheirRoom(t *testing.T) {
	t.Parallel()
	api := scripted()
	w := open(t, api, sandbox.Grant{})
	free := func() int64 {
		w.session.bodies.mu.Lock()
		defer w.session.bodies.mu.Unlock()
		return w.session.bodies.free
	}
	var slow []net.Conn
	for i := range maxBodies / maxBody {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
		fmt.Fprintf(c, "POST /model/anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", maxBody)
		eventually(t, "a body has its room", func() bool { return free() == int64(maxBodies-(i+1)*maxBody) })
	}
	answered := make(chan int)
	go func() {
		status, _, _ := w.do("POST", ask[0].path, ask[0].body)
		answered <- status
	}()
	select {
	case status := <-answered:
		t.Errorf("one more was read: %d", status)
	case <-time.After(50 * time.Millisecond):
	}
	for _, c := range slow {
		c.Close()
	}
	if status := <-answered; status != 200 {
		t.Errorf("afterwards: %d", status)
	}
	eventually(t, "all is given back", func() bool { return free() == maxBodies })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		<-tick.C
	}
}
