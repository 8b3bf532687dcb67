package broker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/fixtures/model"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// canary is the key that must be nowhere but at the model's API.
const canary = "sk-canary-5f0c7a1e9b3d4c6f8a21"

// world is a broker between a client and a model's API.
type world struct {
	t       *testing.T
	broker  *Broker
	session *Session
	listen  net.Listener
	served  chan struct{}
	url     string
	dir     string
	closed  bool
	spent   sandbox.Spent
	found   []sandbox.Finding
}

func upstreams(url string) map[string]Upstream {
	all := map[string]Upstream{}
	for name := range apis {
		all[name] = Upstream{URL: url, Key: redact.NewSecret(canary)}
	}
	return all
}

var everything = []string{"anthropic", "openai", "gemini"}

// open serves a session with a grant before an upstream.
func open(t *testing.T, upstream http.Handler, g sandbox.Grant, more ...Action) *world {
	t.Helper()
	api := httptest.NewServer(upstream)
	t.Cleanup(api.Close)
	b, err := New(Options{Models: upstreams(api.URL), Actions: more})
	if err != nil {
		t.Fatal(err)
	}
	if g.Models == nil {
		g.Models = everything
	}
	return openOn(t, b, sandbox.Workspace{ID: "r-test-1", Exec: t.TempDir()}, g)
}

func openOn(t *testing.T, b *Broker, w sandbox.Workspace, g sandbox.Grant) *world {
	t.Helper()
	s, err := b.Open(w, g)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wd := &world{t: t, broker: b, session: s, listen: l, served: make(chan struct{}), url: "http://" + l.Addr().String(), dir: w.Exec}
	go func() { defer close(wd.served); s.Serve(l) }()
	t.Cleanup(func() { wd.close() })
	return wd
}

func (w *world) close() {
	if !w.closed {
		w.closed = true
		w.listen.Close()
		<-w.served
		w.spent, w.found = w.session.Close()
	}
}

// do sends a request and gives the whole answer.
func (w *world) do(method, path, body string, headers ...string) (int, string, http.Header) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// raw sends bytes as they are and gives the first line of what comes back.
func (w *world) raw(request string) string {
	w.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// records ends the session and reads what it wrote.
func (w *world) records() []Record {
	w.t.Helper()
	w.close()
	data, err := os.ReadFile(filepath.Join(w.dir, Calls))
	if err != nil {
		w.t.Fatal(err)
	}
	var out []Record
	for line := range bytes.Lines(data) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

func scripted() *model.Server { return model.New(model.Options{Key: canary}) }

// ask is a request of each kind that a model answers.
var ask = []struct {
	name, path, body string
	stream           bool
}{
	{"model.anthropic.messages", "/model/anthropic/v1/messages?beta=true", `{"model":"claude-sonnet-4-6","max_tokens":9,"messages":[]}`, false},
	{"model.anthropic.messages", "/model/anthropic/v1/messages", `{"model":"claude-sonnet-4-6","stream":true,"max_tokens":9,"messages":[]}`, true},
	{"model.openai.responses", "/model/openai/v1/responses", `{"model":"gpt-5.5","input":[]}`, false},
	{"model.openai.responses", "/model/openai/v1/responses", `{"model":"gpt-5.5","input":[],"stream":true}`, true},
	{"model.openai.chat", "/model/openai/v1/chat/completions", `{"model":"gpt-5.4","messages":[]}`, false},
	{"model.openai.chat", "/model/openai/v1/chat/completions", `{"model":"gpt-5.4","messages":[],"stream":true}`, true},
	{"model.gemini.generate", "/model/gemini/v1beta/models/gemini-2.5-pro:generateContent", `{"contents":[]}`, false},
	{"model.gemini.stream", "/model/gemini/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", `{"contents":[]}`, true},
}
