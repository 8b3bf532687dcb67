package broker

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/fixtures/model"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

func TestModelsAreAskedWithTheKeyThatTheClientHasNot(t *testing.T) {
	t.Parallel()
	for _, a := range ask {
		t.Run(fmt.Sprint(a.name, " stream=", a.stream), func(t *testing.T) {
			t.Parallel()
			api := scripted()
			w := open(t, api, sandbox.Grant{})
			status, text, header := w.do("POST", a.path, a.body, "Authorization", "Bearer stolen", "X-Api-Key", "stolen", "X-Goog-Api-Key", "stolen",
				"Cookie", "stolen=1", "OpenAI-Organization", "stolen", "Anthropic-Version", "2023-06-01", "Accept", "text/event-stream")
			if status != 200 || !strings.Contains(text, "Done.") {
				t.Fatalf("%d %s", status, text)
			}
			if got := strings.HasPrefix(header.Get("Content-Type"), "text/event-stream"); got != a.stream {
				t.Errorf("answer is %s", header.Get("Content-Type"))
			}
			reqs := api.Requests()
			if len(reqs) != 1 {
				t.Fatalf("%d requests", len(reqs))
			}
			sent := fmt.Sprint(reqs[0].Header, reqs[0].Query, reqs[0].Path)
			if strings.Contains(sent, "stolen") || !strings.Contains(sent, canary) || string(reqs[0].Body) != a.body {
				t.Errorf("sent on: %s %s", sent, reqs[0].Body)
			}
			want := Tokens{Input: model.Input - model.Cached, Read: model.Cached, Output: model.Output}
			r := w.records()[0]
			if diff := cmp.Diff(want, r.Tokens); diff != "" || r.Estimated || r.Action != a.name || r.Decision != Allow || r.Money == 0 {
				t.Errorf("record %+v\n%s", r, diff)
			}
			if w.spent != (sandbox.Spent{Requests: 1, Input: model.Input, Output: model.Output, Money: r.Money}) {
				t.Errorf("spent %+v", w.spent)
			}
		})
	}
}

// The record has the shape of a call and nothing of what was said, and the key only as a fingerprint.
func TestRecordsHaveNoBodyAndNoKey(t *testing.T) {
	t.Parallel()
	w := open(t, scripted(), sandbox.Grant{})
	w.do("POST", "/model/anthropic/v1/messages?key=q-secret", `{"model":"claude-opus-5","messages":[{"role":"user","content":"body-secret"}]}`, "X-Api-Key", "h-secret")
	w.do("GET", "/model/anthropic/v1/files?key=q-secret", "", "X-Api-Key", "h-secret")
	records := w.records()
	data, err := os.ReadFile(filepath.Join(w.dir, Calls))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"q-secret", "body-secret", "h-secret", canary, canary[:12]} {
		if strings.Contains(string(data), secret) {
			t.Errorf("%s is in the records:\n%s", secret, data)
		}
	}
	if records[0].Credential != Fingerprint(redact.NewSecret(canary)) || records[0].Path != "/model/anthropic/v1/messages" || records[0].Model != "claude-opus-5" {
		t.Errorf("%+v", records[0])
	}
	info, err := os.Stat(filepath.Join(w.dir, Calls))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestUpstreamThatFails(t *testing.T) {
	t.Parallel()
	const body = `{"model":"claude-opus-5","messages":[]}`
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		status int
		want   string
		rule   string
	}{
		"repeats the key": {func(w http.ResponseWriter) {
			w.Header().Set("Set-Cookie", "session="+canary)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(401)
			io.WriteString(w, `{"error":{"message":"bad key `+canary+`"}}`)
		}, 401, `{"error":{"message":"bad key [secret]"}}`, ""},
		"leads elsewhere": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://evil.test/"+canary)
			w.WriteHeader(307)
		}, 502, "leads to another address", "upstream.redirect"},
		"hangs up": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 502, "cannot be reached", "upstream.unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }), sandbox.Grant{})
			status, text, header := w.do("POST", "/model/anthropic/v1/messages", body)
			if status != c.status || !strings.Contains(text, c.want) {
				t.Errorf("%d %s", status, text)
			}
			if all := fmt.Sprint(text, header); strings.Contains(all, canary) || strings.Contains(all, "evil") {
				t.Errorf("went inside: %s", all)
			}
			r := w.records()[0]
			if r.Status != c.status || r.Rule != c.rule || r.Tokens != (Tokens{}) || w.spent.Requests != 1 {
				t.Errorf("%+v %+v", r, w.spent)
			}
		})
	}
}

// An answer that breaks off must not look like a whole one.
func TestBrokenAnswerBreaksTheConnection(t *testing.T) {
	t.Parallel()
	w := open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("x", 3000))
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}), sandbox.Grant{})
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/model/openai/v1/responses", strings.NewReader(`{"model":"gpt-5.5"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("read to a good end after %d bytes", len(text))
	}
	if r := w.records()[0]; r.Rule != "upstream.broken" || !r.Estimated || r.Tokens.Output != 1000 {
		t.Errorf("%+v", r)
	}
}

func TestStreamsAreNotHeldBack(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	w := open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for text := range next {
			io.WriteString(w, text)
			http.NewResponseController(w).Flush()
		}
	}), sandbox.Grant{})
	t.Cleanup(func() { close(next) })
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/model/openai/v1/responses", strings.NewReader(`{"model":"gpt-5.5","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	got := make(chan string)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		for buf := make([]byte, 64); ; {
			n, err := resp.Body.Read(buf)
			if err != nil {
				return
			}
			got <- string(buf[:n])
		}
	}()
	for i := range 5 { // each is seen before the next one is sent
		event := fmt.Sprintf("data: %d\n\n", i)
		next <- event
		if seen := <-got; seen != event {
			t.Fatalf("%q, want %q", seen, event)
		}
	}
}

func TestModelIsRefusedWithoutKeyOrGrant(t *testing.T) {
	t.Parallel()
	b, err := New(Options{Models: map[string]Upstream{"openai": {URL: "https://api.openai.com"}, "gemini": {URL: "https://example.com", Key: redact.NewSecret("k")}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"gemini"}, b.Models()); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"openai", "anthropic"} {
		if _, err := b.Open(sandbox.Workspace{Exec: t.TempDir()}, sandbox.Grant{Models: []string{name}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "ftp://x", "https://user:pw@x", "https://x?key=1", "x.test"} {
		if _, err := New(Options{Models: map[string]Upstream{"openai": {URL: bad}}}); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	w := open(t, scripted(), sandbox.Grant{Models: []string{"openai"}})
	if status, text, _ := w.do("POST", "/model/anthropic/v1/messages", `{}`); status != 403 || !strings.Contains(text, "permission_error") {
		t.Errorf("%d %s", status, text)
	}
}
