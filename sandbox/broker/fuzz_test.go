package broker

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Whatever target is asked for: the upstream is asked for one of the paths of the table, on its own host, or for nothing.
func FuzzTarget(f *testing.F) {
	for _, target := range []string{
		"/model/anthropic/v1/models/x", "/model/gemini/v1beta/models/a:countTokens", "http://evil.test/model/openai/v1/models", "//evil.test",
		"/model/openai/v1/models/%2e%2e/files", "/model/openai/v1/models/..", "/model/openai/v1/models?a=b#c", "/model/openai/v1/models/a@evil.test",
		"/model/openai/v1/models/\r\nHost: evil", "*", "", "/git/../model", "/model/openai/v1/models\\x", "/MODEL/openai/v1/models",
	} {
		f.Add("GET", target)
		f.Add("POST", target)
	}
	seen := make(chan string, 1)
	b, err := New(Options{Models: upstreams("https://api.example.com/base"), Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		seen <- r.URL.String()
		return httptest.NewRecorder().Result(), nil
	})})
	if err != nil {
		f.Fatal(err)
	}
	s, err := b.Open(sandbox.Workspace{ID: "r-fuzz-1", Exec: f.TempDir()}, sandbox.Grant{Models: everything})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.ContainsAny(method, " \r\n") {
			return // net/http answers 400
		}
		r := &http.Request{Method: method, RequestURI: target, URL: u, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		select {
		case got := <-seen:
			out, err := url.Parse(got)
			if err != nil || out.Host != "api.example.com" || out.User != nil || !strings.HasPrefix(out.Path, "/base/v1") || strings.Contains(got, "..") || out.Path != out.EscapedPath() {
				t.Errorf("%s %q went to %q", method, target, got)
			}
			if method != "GET" {
				t.Errorf("%s %q without a body went to %q", method, target, got)
			}
		default:
			if w.Code != http.StatusForbidden {
				t.Errorf("%s %q: %d", method, target, w.Code)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What passes the check is what encoding/json and every other reader take it for: valid, without a doubtful key, and without a tool
// of a server.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		good, `{"tools":[{"type":"mcp"}]}`, `{"tools":[],"t\u006fols":[{"type":"mcp"}]}`, `{"a":{"tools":[{"type":"function","tools":[{"type":"mcp"}]}]}}`,
		`{"tools":{"type":"mcp"}}`, `{"model":1,"stream":"true"}`, `{"a":[[{"tools":[{"type":"web_search"}]}]]}`, `{"a":1}x`, `{"a":1`, "{\"a\":\"\u0000\"}", `{"tools":[[{"type":"mcp"}]]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := responsesInput.check(body)
		if err != nil {
			if _, ok := err.(*errInput); !ok {
				t.Errorf("%T %v", err, err)
			}
			return
		}
		var v struct {
			Model any            `json:"model"`
			Tools any            `json:"tools"`
			Rest  map[string]any `json:"-"`
		}
		if err := json.Unmarshal(body, &v.Rest); err != nil {
			t.Fatalf("%q passes and is no JSON: %v", body, err)
		}
		if m, ok := v.Rest["model"].(string); ok && m != in.model {
			t.Errorf("%q: model %q", body, in.model)
		}
		tools, _ := v.Rest["tools"].([]any)
		for _, tool := range tools {
			m, _ := tool.(map[string]any)
			if kind, ok := m["type"].(string); ok && !responsesInput.allowsTool(kind) {
				t.Errorf("%q passes", body)
			}
		}
	})
}

func FuzzUsage(f *testing.F) {
	f.Add([]byte("data: {\"usage\":{\"input_tokens\":1}}\n\n"), true)
	f.Add([]byte(`[{"usageMetadata":{}}]`), false)
	f.Fuzz(func(t *testing.T, answer []byte, stream bool) {
		u := &usage{stream: stream}
		u.Write(answer)
		u.close()
		if n, _ := u.total(10, 10); n.Input < 0 || n.Read < 0 || n.Written < 0 || n.Hour < 0 || n.Output < 0 {
			t.Errorf("%q: %+v", answer, n)
		}
	})
}
