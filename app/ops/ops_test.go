package ops

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sandpiper-bot/sandpiper/app/mission"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func now() time.Time { return noon }

// database is one with something in each count.
type database struct{ err error }

func (d database) Ping(context.Context) error { return d.err }

func (d database) Count(context.Context) (store.Counts, error) {
	return store.Counts{
		Open: map[string]int{"execute": 2}, Ended: map[string]int{"changed": 3}, Findings: map[store.Finding]int{{Kind: "exec.denied", Outcome: "contained"}: 1},
		Waiting: 4, WaitsSince: noon.Add(-time.Minute), Unhandled: 5, Oldest: noon.Add(-2 * time.Second), Last: noon.Add(-90 * time.Second),
	}, d.err
}

func (d database) Duty(context.Context, string) (store.Duty, error) {
	return store.Duty{Holder: "h", Done: noon.Add(-30 * time.Second), Result: "7 deliveries read"}, d.err
}

// fed is a Metrics to which everything has happened once.
func fed(d database) *Metrics {
	m := NewMetrics(d, "sweep", func() map[string]int { return map[string]int{"running": 1} }, now)
	m.Received("issues", "accepted")
	m.Received("issues\n", "refused")
	m.DeliveryDone(mission.Handled{Event: "issues", Outcome: "mission m-1 begun", Age: time.Second})
	m.DeliveryDone(mission.Handled{Event: "push", Outcome: "ignored: no reason", Age: time.Second})
	m.DeliveryDone(mission.Handled{Event: "push", Outcome: "later"})
	m.Ticked()
	m.StepDone(mission.StepDone{Step: "queue", Result: mission.ResultDone, Began: noon, Ended: noon.Add(time.Second), Waited: time.Minute})
	m.Answered(7, "2xx", 4999)
	m.Minted(true)
	m.Reaped(2)
	return m
}

const page = "../../docs/metrics.md"

const head = `# Metrics

The bot serves ` + "`/metrics`" + ` for Prometheus on SANDPIPER_OPS_LISTEN, beside ` + "`/healthz`" + ` (the process is up) and ` + "`/readyz`" + ` (it can
work; the JSON says what is wrong, how long ago the last delivery came, and how the last sweep went). Beside the metrics below there are
those of the Go runtime (` + "`go_…`" + `) and of the process (` + "`process_…`" + `). Gauges that are read from the database are of all bots that share it:
take the maximum over them, not the sum. [grafana.json](grafana.json) is a dashboard of them.

Traces go where OTEL_EXPORTER_OTLP_ENDPOINT says, by OTLP over HTTP; the other variables of OpenTelemetry's exporter count as well. A mission is
one trace over every restart and every bot: its steps are spans, and the whole is sent when it ends. With SANDPIPER_ADMIN_PASSWORD set, ` + "`/queue/`" + `
shows the jobs that carry ticks (River's own page; user admin).

`

// TestMetricsPage holds the page to the catalogue; it is made of it.
func TestMetricsPage(t *testing.T) {
	want := head + Table()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/metrics.md is not what the metrics are; run go test ./app/ops -update\n%s", diff)
	}
}

// TestEveryMetricIsInTheCatalogue holds the registry to it, both ways.
func TestEveryMetricIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	families, err := fed(database{}).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Name, Kind string
		Labels     []string
	}
	var got, want []line
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), prefix) {
			continue
		}
		got = append(got, line{f.GetName(), strings.ToLower(f.GetType().String()), labelsOf(f.GetMetric()[0])})
	}
	for _, e := range catalogue {
		if e.help == "" || e.alert == "" {
			t.Errorf("%s does not say what it is, or when to look", e.name)
		}
		labels := slices.Sorted(slices.Values(e.labels))
		want = append(want, line{prefix + e.name, string(e.kind), labels})
	}
	slices.SortFunc(want, func(a, b line) int { return strings.Compare(a.Name, b.Name) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-catalogue +registry):\n%s", diff)
	}
}

func labelsOf(m *dto.Metric) (names []string) {
	for _, l := range m.GetLabel() {
		names = append(names, l.GetName())
	}
	return names
}

// TestDashboard holds the dashboard to metrics that exist.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, e := range catalogue {
		known[prefix+e.name] = true
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, word := range strings.FieldsFunc(target.Expr, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
				name := strings.TrimSuffix(word, "_bucket")
				if strings.HasPrefix(word, prefix) && !known[name] {
					t.Errorf("panel %q asks for %s, which is no metric", p.Title, name)
				}
			}
		}
	}
	if len(board.Panels) == 0 {
		t.Error("no panels")
	}
}

func get(t *testing.T, h http.Handler, path string, prepare ...func(*http.Request)) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, p := range prepare {
		p(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(body)
}

func TestReady(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection refused")
	for name, tt := range map[string]struct {
		database database
		identity string
		unfit    string
		code     int
		says     []string
	}{
		"OK":         {database{}, "sandpiper", "", 200, []string{`"ready": true`, `"seconds_since_last_delivery": 90`, `"seconds_ago": 30`, `"7 deliveries read"`, `"missions_waiting": 4`}},
		"NoIdentity": {database{}, "", "", 503, []string{`"ready": false`, "GitHub has not told"}},
		"KeyRefused": {database{}, "sandpiper", "see that the key", 503, []string{`"ready": false`, "see that the key"}},
		"NoDatabase": {database{gone}, "sandpiper", "", 503, []string{`"ready": false`, "connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := Handler(Options{Metrics: fed(tt.database), Database: tt.database, Identity: func() string { return tt.identity },
				Unfit: func() string { return tt.unfit }, Now: now})
			code, body := get(t, h, "/readyz")
			if code != tt.code {
				t.Errorf("status %d, want %d", code, tt.code)
			}
			for _, part := range tt.says {
				if !strings.Contains(body, part) {
					t.Errorf("it does not say %s:\n%s", part, body)
				}
			}
			if code, _ := get(t, h, "/healthz"); code != 200 {
				t.Errorf("healthz: %d", code)
			}
			// Metrics are there also when the database is not.
			if code, body := get(t, h, "/metrics"); code != 200 || !strings.Contains(body, "sandpiper_database_up ") {
				t.Errorf("metrics: %d", code)
			}
		})
	}
}

func TestQueuePage(t *testing.T) {
	t.Parallel()
	river := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "jobs") })
	o := Options{Metrics: fed(database{}), Database: database{}, Identity: func() string { return "" }, Queue: func() http.Handler { return river }, Now: now}
	if code, _ := get(t, Handler(o), "/queue/"); code != http.StatusNotFound {
		t.Errorf("without a password: %d, want 404", code)
	}
	o.Password = redact.NewSecret("correct horse")
	h := Handler(o)
	if code, body := get(t, h, "/"); code != http.StatusOK || !strings.Contains(body, "/queue/ (user admin)") {
		t.Errorf("the index: %d, %s", code, body)
	}
	login := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	for _, tt := range []struct {
		name    string
		prepare []func(*http.Request)
		code    int
	}{
		{"nobody", nil, 401}, {"wrong password", []func(*http.Request){login("admin", "x")}, 401}, {"wrong user", []func(*http.Request){login("root", "correct horse")}, 401},
		{"admin", []func(*http.Request){login("admin", "correct horse")}, 200},
		{"from elsewhere", []func(*http.Request){login("admin", "correct horse"), func(r *http.Request) { r.Method = "POST"; r.Header.Set("Sec-Fetch-Site", "cross-site") }}, 403},
	} {
		if code, _ := get(t, h, "/queue/", tt.prepare...); code != tt.code {
			t.Errorf("%s: %d, want %d", tt.name, code, tt.code)
		}
	}
}

// TestMissionIsOneTrace over two lives of a bot.
func TestMissionIsOneTrace(t *testing.T) {
	t.Parallel()
	sent := tracetest.NewInMemoryExporter()
	m := store.Mission{ID: "m-abcde", CreatedAt: noon}
	newTraces(trace.WithSyncer(sent), "").StepDone(mission.StepDone{Mission: m, Step: "take", Result: mission.ResultDone, Began: noon, Ended: noon.Add(time.Second)})
	m.EndedAt = noon.Add(time.Minute)
	newTraces(trace.WithSyncer(sent), "").StepDone(mission.StepDone{Mission: m, Step: "close", Result: mission.ResultDone, Began: noon.Add(time.Second), Ended: m.EndedAt})
	spans := sent.GetSpans()
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
		if s.SpanContext.TraceID() != spans[0].SpanContext.TraceID() {
			t.Errorf("span %s is of another trace", s.Name)
		}
	}
	if diff := cmp.Diff([]string{"take", "close", "mission"}, names); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	if spans[0].Parent.SpanID() != spans[2].SpanContext.SpanID() || spans[1].Parent.SpanID() != spans[2].SpanContext.SpanID() || spans[2].Parent.IsValid() {
		t.Error("the steps are not children of the mission")
	}
}
