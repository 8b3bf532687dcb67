package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/fixtures/payloads"
)

// memoryLog is a Log that forgets when the process ends; app/store has the real one.
type memoryLog struct {
	mu   sync.Mutex
	kept map[string]Delivery
	fail error
}

func (l *memoryLog) Put(_ context.Context, d Delivery) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return false, l.fail
	}
	if _, has := l.kept[d.ID]; has {
		return false, nil
	}
	if l.kept == nil {
		l.kept = map[string]Delivery{}
	}
	d.Body = bytes.Clone(d.Body) // it is the handler's again
	l.kept[d.ID] = d
	return true, nil
}

var testTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// intake is a running endpoint and what it touches.
type intake struct {
	url   string
	log   *memoryLog
	lines *bytes.Buffer
	woken atomic.Int32
}

const (
	oldSecret = "the old secret"
	newSecret = "the new secret"
)

func newIntake(t *testing.T) *intake {
	t.Helper()
	in := &intake{log: &memoryLog{}, lines: &bytes.Buffer{}}
	h, err := Handler(Options{
		Secrets: secrets(newSecret, oldSecret), Log: in.log, Clock: func() time.Time { return testTime },
		Wake: func() { in.woken.Add(1) }, Logger: slog.New(slog.NewTextHandler(in.lines, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	in.url = server.URL
	return in
}

// request is a right delivery, for a test to spoil.
func (in *intake) request(t *testing.T, event string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", deliveryID)
	r.Header.Set("X-Hub-Signature-256", sign(newSecret, body))
	return r
}

// send returns the status, and the JSON answer as a map.
func send(t *testing.T, r *http.Request) (int, map[string]string, http.Header) {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]string{}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Errorf("answer %q: %v", text, err)
	}
	return response.StatusCode, answer, response.Header
}

func example(t *testing.T, name string) []byte {
	t.Helper()
	for _, p := range payloads.All() {
		if p.Name == name {
			body, err := payloads.WithInstallation(p.Body)
			if err != nil {
				t.Fatal(err)
			}
			return body
		}
	}
	t.Fatalf("no example %s", name)
	return nil
}

func TestHandlerStoresBeforeItAcknowledges(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	body := example(t, "issues/labeled-1")
	status, answer, _ := send(t, in.request(t, "issues", body))
	if diff := cmp.Diff(map[string]string{"status": "accepted", "delivery": deliveryID}, answer); status != 202 || diff != "" {
		t.Errorf("status %d, answer (-want +got):\n%s", status, diff)
	}
	want := map[string]Delivery{deliveryID: {
		ID: deliveryID, Event: "issues", Action: "labeled", InstallationID: payloads.InstallationID, RepositoryID: 186853002,
		ReceivedAt: testTime, Body: body,
	}}
	if diff := cmp.Diff(want, in.log.kept); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if in.woken.Load() != 1 {
		t.Errorf("woken %d times, want once", in.woken.Load())
	}
	if !strings.Contains(in.lines.String(), "secret=0") {
		t.Errorf("the log does not name the secret that matched: %s", in.lines)
	}
}

// During a rotation both secrets work, and the log tells when the old one is not needed any more.
func TestHandlerTakesTheOldSecretToo(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	body := example(t, "issues/labeled-1")
	r := in.request(t, "issues", body)
	r.Header.Set("X-Hub-Signature-256", sign(oldSecret, body))
	if status, _, _ := send(t, r); status != 202 || !strings.Contains(in.lines.String(), "secret=1") {
		t.Errorf("status %d, log %s", status, in.lines)
	}
}

// The same delivery five times at once (smithy-ai/smithy-ai#47 saw that within four milliseconds).
func TestCase03DeliveryComesFiveTimes(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	body := example(t, "issues/labeled-1")
	var accepted, duplicate atomic.Int32
	var wait sync.WaitGroup
	for range 5 {
		r := in.request(t, "issues", body)
		wait.Go(func() {
			status, answer, _ := send(t, r)
			if status == 202 && answer["status"] == "accepted" {
				accepted.Add(1)
			}
			if status == 202 && answer["status"] == "duplicate" {
				duplicate.Add(1)
			}
		})
	}
	wait.Wait()
	if accepted.Load() != 1 || duplicate.Load() != 4 || in.woken.Load() != 1 {
		t.Errorf("accepted %d, duplicate %d, woken %d; want 1, 4, 1", accepted.Load(), duplicate.Load(), in.woken.Load())
	}
}

// An unsigned sender that guesses a GUID must not be able to make the real delivery look like a duplicate.
func TestHandlerVerifiesBeforeItLooksForDuplicates(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	body := example(t, "issues/labeled-1")
	forged := in.request(t, "issues", body)
	forged.Header.Set("X-Hub-Signature-256", sign("guess", body))
	if status, _, _ := send(t, forged); status != 401 {
		t.Errorf("forged: status %d, want 401", status)
	}
	if _, answer, _ := send(t, in.request(t, "issues", body)); answer["status"] != "accepted" {
		t.Errorf("real: %v, want accepted", answer)
	}
}

func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	const marker = "do-not-log-this"
	good := []byte(`{"action":"labeled","x":"` + marker + `"}`)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tc := range map[string]struct {
		body   []byte
		spoil  func(*http.Request)
		status int
		reason string
	}{
		"GET":               {good, func(r *http.Request) { r.Method = http.MethodGet }, 405, "not a POST"},
		"a form":            {good, header("Content-Type", "application/x-www-form-urlencoded"), 415, "content type is not application/json"},
		"no content type":   {good, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "content type is not application/json"},
		"no event":          {good, header("X-GitHub-Event", ""), 400, "malformed X-GitHub-Event"},
		"event with a path": {good, header("X-GitHub-Event", "../issues"), 400, "malformed X-GitHub-Event"},
		"no delivery id":    {good, header("X-GitHub-Delivery", ""), 400, "malformed X-GitHub-Delivery"},
		"id is a path":      {good, header("X-GitHub-Delivery", "../../etc/passwd"), 400, "malformed X-GitHub-Delivery"},
		"no signature":      {good, func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, 401, "bad signature"},
		"SHA-1 only": {good, func(r *http.Request) {
			r.Header.Del("X-Hub-Signature-256")
			r.Header.Set("X-Hub-Signature", "sha1=0000000000000000000000000000000000000000")
		}, 401, "bad signature"},
		"wrong signature":     {good, header("X-Hub-Signature-256", sign("guess", good)), 401, "bad signature"},
		"unsigned and broken": {[]byte("{" + marker), header("X-Hub-Signature-256", ""), 401, "bad signature"},
		"broken JSON":         {[]byte("{" + marker), nil, 400, "not JSON"},
		"not UTF-8":           {[]byte("\"\xfe" + marker + "\""), nil, 400, "not UTF-8"},
		"no issue":            {good, nil, 400, "malformed payload"},
		"too large":           {bytes.Repeat([]byte(" "), MaxBody+1), nil, 413, "body too large"},
		"too large, unannounced": {bytes.Repeat([]byte(" "), MaxBody+1), func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(r.Body), -1
		}, 413, "body too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := newIntake(t)
			r := in.request(t, "issues", tc.body)
			if tc.spoil != nil {
				tc.spoil(r)
			}
			status, answer, head := send(t, r)
			if diff := cmp.Diff(map[string]string{"status": "refused", "reason": tc.reason}, answer); status != tc.status || diff != "" {
				t.Errorf("status %d, want %d; answer (-want +got):\n%s", status, tc.status, diff)
			}
			if got, want := head.Get("Allow") == "POST", tc.status == 405; got != want {
				t.Errorf("Allow: POST is there: %v, want %v", got, want)
			}
			if len(in.log.kept) != 0 || in.woken.Load() != 0 {
				t.Errorf("stored %d, woken %d", len(in.log.kept), in.woken.Load())
			}
			if log := in.lines.String(); strings.Contains(log, marker) || !strings.Contains(log, tc.reason) {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func TestHandlerAcknowledgesWhatItIgnores(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ event, body, reason string }{
		"unknown event":  {"sub_issues", `{"action":"parent_issue_added"}`, "is not handled"},
		"unknown action": {"check_run", `{"action":"created"}`, "is not handled"},
		"own comment":    {"issue_comment", commentBody("created", "a[bot]", "Bot", "/sandpiper run"), "comment by a bot"},
	} {
		in := newIntake(t)
		status, answer, _ := send(t, in.request(t, tc.event, []byte(tc.body)))
		if status != 202 || answer["status"] != "ignored" || len(in.log.kept) != 0 || in.woken.Load() != 0 {
			t.Errorf("%s: status %d, %v, stored %d", name, status, answer, len(in.log.kept))
		}
		if log := in.lines.String(); !strings.Contains(log, "ignored: ") || !strings.Contains(log, tc.reason) {
			t.Errorf("%s: the log does not say why: %s", name, log)
		}
	}
}

// GitHub's delivery log must show a failure, so that the delivery is found there and asked for again.
func TestHandlerReportsThatItCouldNotStore(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	in.log.fail = errors.New("disk full")
	body := example(t, "issues/labeled-1")
	status, _, _ := send(t, in.request(t, "issues", body))
	if status != 500 || in.woken.Load() != 0 || !strings.Contains(in.lines.String(), "disk full") {
		t.Errorf("status %d, woken %d, log %s", status, in.woken.Load(), in.lines)
	}
	in.log.fail = nil
	if _, answer, _ := send(t, in.request(t, "issues", body)); answer["status"] != "accepted" {
		t.Errorf("afterwards: %v, want accepted", answer)
	}
}

// A sender that goes away in the middle of the body leaves nothing behind.
func TestHandlerSenderGoesAway(t *testing.T) {
	t.Parallel()
	log := &memoryLog{}
	h, err := Handler(Options{Secrets: secrets(newSecret), Log: log, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	body := example(t, "issues/labeled-1")
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(bytes.NewReader(body[:100]), brokenReader{}))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("X-GitHub-Event", "issues")
	r.Header.Set("X-GitHub-Delivery", deliveryID)
	r.Header.Set("X-Hub-Signature-256", sign(newSecret, body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 400 || len(log.kept) != 0 {
		t.Errorf("status %d, stored %d", w.Code, len(log.kept))
	}
}

// contextLog refuses as a database does when the context is done.
type contextLog struct{ memoryLog }

func (l *contextLog) Put(ctx context.Context, d Delivery) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return l.memoryLog.Put(ctx, d)
}

// GitHub hangs up after ten seconds. What it had sent by then is kept all the same.
func TestHandlerSenderDoesNotWait(t *testing.T) {
	t.Parallel()
	log := &contextLog{}
	h, err := Handler(Options{Secrets: secrets(newSecret), Log: log, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := &intake{url: "http://127.0.0.1/"}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, in.request(t, "issues", example(t, "issues/labeled-1")).WithContext(ctx))
	if w.Code != 202 || len(log.kept) != 1 {
		t.Errorf("status %d, stored %d; want 202 and 1", w.Code, len(log.kept))
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

func TestHandlerNeedsItsOptions(t *testing.T) {
	t.Parallel()
	whole := Options{Secrets: secrets("s"), Log: &memoryLog{}, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}
	if _, err := Handler(whole); err != nil {
		t.Errorf("whole: %v", err)
	}
	for name, spoil := range map[string]func(*Options){
		"secrets": func(o *Options) { o.Secrets = nil },
		"log":     func(o *Options) { o.Log = nil },
		"clock":   func(o *Options) { o.Clock = nil },
		"logger":  func(o *Options) { o.Logger = nil },
	} {
		o := whole
		spoil(&o)
		if _, err := Handler(o); err == nil {
			t.Errorf("without %s: accepted", name)
		}
	}
}

// A stand-in for GitHub that numbers its deliveries by the clock gives two events of one millisecond one id.
func TestIDsThatAreNoGUIDs(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	label, comment := example(t, "issues/labeled-1"), example(t, "issues/labeled-2")
	var got []string
	for _, body := range [][]byte{label, comment, label} {
		r := in.request(t, "issues", body)
		r.Header.Set("X-GitHub-Delivery", "1732875049000")
		status, answer, _ := send(t, r)
		got = append(got, fmt.Sprint(status, " ", answer["status"]))
	}
	if diff := cmp.Diff([]string{"202 accepted", "202 accepted", "202 duplicate"}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}
