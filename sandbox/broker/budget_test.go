package broker

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-bot/sandpiper/fixtures/model"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Each API is refused in its own words, with a status that its clients do not try again.
func TestBudgetIsHeld(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]sandbox.Grant{
		"requests": {Requests: 2},
		"tokens":   {Tokens: 2 * (model.Input + model.Output)},
		"money":    {Money: 1000},
	} {
		for _, a := range ask {
			if a.stream {
				continue
			}
			t.Run(name+" "+a.name, func(t *testing.T) {
				t.Parallel()
				api := scripted()
				w := open(t, api, g)
				status, text, n := 200, "", 0
				for ; status == 200 && n < 20; n++ {
					status, text, _ = w.do("POST", a.path, a.body)
				}
				wants := map[string]string{
					"model.anthropic": `{"error":{"message":"sandpiper: `, "model.openai": `"code":"budget"`, "model.gemini": `"status":"FAILED_PRECONDITION"`,
				}
				want := wants[a.name[:strings.LastIndex(a.name, ".")]]
				if status != http.StatusBadRequest || !strings.Contains(text, want) || !strings.Contains(text, "the budget is used up") {
					t.Errorf("%d %s", status, text)
				}
				if name != "money" && len(api.Requests()) != 2 || n == 20 {
					t.Errorf("%d requests reached the API", len(api.Requests()))
				}
				// What costs nothing still works, so that an agent can end in order.
				if status, _, _ := w.do("GET", "/model/openai/v1/models", ""); status != 200 {
					t.Errorf("list of models: %d", status)
				}
				w.close()
				if g.Money > 0 && w.spent.Money < g.Money || int(w.spent.Requests) != n-1 {
					t.Errorf("spent %+v after %d", w.spent, n)
				}
			})
		}
	}
}

// Calls at once do not slip past together.
func TestBudgetHoldsForManyAtOnce(t *testing.T) {
	t.Parallel()
	api := scripted()
	w := open(t, api, sandbox.Grant{Requests: 10})
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { w.do("POST", ask[0].path, ask[0].body) })
	}
	all.Wait()
	w.close()
	if len(api.Requests()) != 10 || w.spent.Requests != 10 {
		t.Errorf("%d reached the API, spent %+v", len(api.Requests()), w.spent)
	}
}

// A client that hangs up before the end, where the tokens are told, pays for what came.
func TestHangingUpIsNotFree(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	w := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", `{"type":"message_start","message":{"usage":{"input_tokens":5000,"output_tokens":1}}}`)
		fmt.Fprintf(w, "data: %s\n\n", strings.Repeat("x", 3000))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}), sandbox.Grant{})
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+ask[1].path, strings.NewReader(ask[1].body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	<-gone // the call outside ends with the one inside
	w.close()
	if w.spent.Input != 5000 || w.spent.Output < 1000 || w.spent.Money < 15_000 {
		t.Errorf("spent %+v", w.spent)
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model  string
		tokens Tokens
		want   int64
	}{
		{"claude-sonnet-4-6", Tokens{Input: 1e6, Output: 1e6}, 18_000_000},
		{"claude-sonnet-4-5-20250929", Tokens{Read: 1e6, Written: 1e6, Hour: 1e6}, 300_000 + 3_750_000 + 6_000_000},
		{"gpt-5.5", Tokens{Input: 100_000, Read: 100_000}, 500_000 + 50_000},
		{"gpt-5.5", Tokens{Input: 300_000, Output: 1000}, 3_000_000 + 45_000},
		{"gpt-5-2026-01-01", Tokens{Output: 1e6}, 10_000_000},
		{"gpt-50", Tokens{Output: 1e6}, 0},
		{"a-model-of-our-own", Tokens{Input: 1e6, Output: 1e6}, 0},
		{"", Tokens{Input: 1e6}, 0},
	} {
		if got := int64(priceOf(c.model).of(c.tokens)); got != c.want {
			t.Errorf("%s %+v: %d, want %d", c.model, c.tokens, got, c.want)
		}
	}
}

// The same answer in any pieces gives the same tokens.
func TestUsageIsReadFromPieces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		stream       bool
		want         Tokens
		final        bool
	}{
		{"an hour's cache", `{"usage":{"input_tokens":1,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_1h_input_tokens":20},"cache_read_input_tokens":5,"output_tokens":7}}`,
			false, Tokens{Input: 1, Read: 5, Written: 10, Hour: 20, Output: 7}, true},
		{"a list", `[{"usageMetadata":{"promptTokenCount":5}},{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2,"thoughtsTokenCount":3}}]`,
			false, Tokens{Input: 5, Output: 5}, true},
		{"CRLF, and none at the end", "event: x\r\ndata: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\r\n\r\ndata: [DONE]", true, Tokens{Input: 9, Output: 1}, true},
		{"no usage", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", true, Tokens{}, false},
		{"negative", `{"usage":{"input_tokens":-5,"output_tokens":-5}}`, false, Tokens{}, true},
		{"not JSON", `usage`, false, Tokens{}, false},
	} {
		for _, size := range []int{1, 7, 4096} {
			u := &usage{stream: c.stream}
			for rest := []byte(c.answer); len(rest) > 0; {
				n := min(size, len(rest))
				u.Write(rest[:n])
				rest = rest[n:]
			}
			u.close()
			if u.tokens != c.want || u.final != c.final {
				t.Errorf("%s in pieces of %d: %+v %v", c.name, size, u.tokens, u.final)
			}
		}
	}
}
