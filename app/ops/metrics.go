package ops

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sandpiper-bot/sandpiper/app/mission"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Source is what is read when somebody looks.
type Source interface {
	Count(context.Context) (store.Counts, error)
	Duty(ctx context.Context, name string) (store.Duty, error)
}

// Metrics counts what happens. The zero value of its registry is not usable; make it with NewMetrics.
type Metrics struct {
	registry  *prometheus.Registry
	now       func() time.Time
	source    Source
	sweep     string                // the duty of the sweep
	sandboxes func() map[string]int // by state

	deliveries, handled, steps, responses, mints *prometheus.CounterVec
	ticks, reaped                                prometheus.Counter
	age, wait                                    prometheus.Histogram
	stepTime                                     *prometheus.HistogramVec
	quota                                        *prometheus.GaugeVec
	reapedAt                                     atomic.Int64 // Unix milliseconds; 0: not yet
}

// NewMetrics registers every metric of the catalogue.
func NewMetrics(source Source, sweep string, sandboxes func() map[string]int, now func() time.Time) *Metrics {
	vec := func(name string) *prometheus.CounterVec {
		e := byName(name)
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + e.name, Help: e.help}, e.labels)
	}
	plain := func(name string) prometheus.Counter {
		e := byName(name)
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + e.name, Help: e.help})
	}
	times := func(name string, buckets ...float64) prometheus.HistogramOpts {
		e := byName(name)
		return prometheus.HistogramOpts{Name: prefix + e.name, Help: e.help, Buckets: buckets}
	}
	quota := byName("github_quota_remaining")
	m := &Metrics{
		registry: prometheus.NewRegistry(), now: now, source: source, sweep: sweep, sandboxes: sandboxes,
		deliveries: vec("deliveries_total"), handled: vec("deliveries_handled_total"), steps: vec("steps_total"),
		responses: vec("github_responses_total"), mints: vec("github_token_mints_total"),
		ticks: plain("ticks_total"), reaped: plain("reaper_removed_total"),
		age:      prometheus.NewHistogram(times("delivery_age_seconds", 0.1, 0.5, 1, 5, 30, 300, 3600)),
		wait:     prometheus.NewHistogram(times("queue_wait_seconds", 1, 10, 60, 300, 1800, 3600, 4*3600)),
		stepTime: prometheus.NewHistogramVec(times("step_seconds", 0.1, 0.5, 1, 5, 15, 60, 120), byName("step_seconds").labels),
		quota:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + quota.name, Help: quota.help}, quota.labels),
	}
	m.registry.MustRegister(m.deliveries, m.handled, m.steps, m.responses, m.mints, m.ticks, m.reaped, m.age, m.wait, m.stepTime, m.quota,
		read{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler is /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Received counts a webhook that was answered. Nobody vouches for the event of one that was refused.
func (m *Metrics) Received(event, outcome string) {
	if outcome == "refused" {
		event = ""
	}
	m.deliveries.WithLabelValues(event, outcome).Inc()
}

// DeliveryDone counts a delivery that was acted on.
func (m *Metrics) DeliveryDone(d mission.Handled) {
	class, _, _ := strings.Cut(d.Outcome, " ")
	class = strings.TrimSuffix(class, ":")
	switch class {
	case "mission", "ignored", "refused", "failed", "later":
	default:
		class = "done"
	}
	m.handled.WithLabelValues(d.Event, class).Inc()
	if class != "later" {
		m.age.Observe(d.Age.Seconds())
	}
}

// Ticked counts a look at a mission.
func (m *Metrics) Ticked() { m.ticks.Inc() }

// StepDone counts one go at a step.
func (m *Metrics) StepDone(s mission.StepDone) {
	m.steps.WithLabelValues(s.Step, string(s.Result)).Inc()
	m.stepTime.WithLabelValues(s.Step).Observe(s.Ended.Sub(s.Began).Seconds())
	if s.Waited > 0 {
		m.wait.Observe(s.Waited.Seconds())
	}
}

// Answered counts an answer of GitHub. remaining is below 0 where it did not say what is left.
func (m *Metrics) Answered(installation int64, class string, remaining int) {
	m.responses.WithLabelValues(class).Inc()
	if remaining >= 0 {
		m.quota.WithLabelValues(strconv.FormatInt(installation, 10)).Set(float64(remaining))
	}
}

// Minted counts a token.
func (m *Metrics) Minted(ok bool) {
	m.mints.WithLabelValues(map[bool]string{true: "made", false: "refused"}[ok]).Inc()
}

// Reaped counts what the reaper removed in a round that went well.
func (m *Metrics) Reaped(removed int) {
	m.reaped.Add(float64(removed))
	m.reapedAt.Store(m.now().UnixMilli())
}

// read collects what is in the database at the moment of a scrape.
type read struct{ *Metrics }

// readNames are the metrics of read.
var readNames = []string{
	"deliveries_unhandled", "delivery_oldest_age_seconds", "last_delivery_age_seconds", "missions_open", "missions_ended_total", "queue_depth",
	"queue_oldest_wait_seconds", "checks_open", "sandboxes", "findings_total", "reaper_last_success_age_seconds", "sweep_last_age_seconds",
	"sweep_failing", "database_up",
}

// Describe implements prometheus.Collector.
func (r read) Describe(to chan<- *prometheus.Desc) {
	for _, name := range readNames {
		to <- desc(name)
	}
}

// scrapeTime is how long a scrape waits for the database.
const scrapeTime = 5 * time.Second

// Collect implements prometheus.Collector.
func (r read) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	send := func(name string, value float64, labels ...string) {
		t := prometheus.GaugeValue
		if byName(name).kind == counter {
			t = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(desc(name), t, value, labels...)
	}
	if reaped := r.reapedAt.Load(); reaped > 0 {
		send("reaper_last_success_age_seconds", r.since(time.UnixMilli(reaped), -1))
	} else {
		send("reaper_last_success_age_seconds", -1)
	}
	for state, n := range r.sandboxes() {
		send("sandboxes", float64(n), state)
	}
	c, err := r.source.Count(ctx)
	if err != nil {
		send("database_up", 0)
		return
	}
	send("database_up", 1)
	send("deliveries_unhandled", float64(c.Unhandled))
	send("delivery_oldest_age_seconds", r.since(c.Oldest, 0))
	send("last_delivery_age_seconds", r.since(c.Last, -1))
	send("queue_depth", float64(c.Waiting))
	send("queue_oldest_wait_seconds", r.since(c.WaitsSince, 0))
	send("checks_open", float64(c.ChecksOpen))
	for step, n := range c.Open {
		send("missions_open", float64(n), step)
	}
	for outcome, n := range c.Ended {
		send("missions_ended_total", float64(n), outcome)
	}
	for f, n := range c.Findings {
		send("findings_total", float64(n), f.Kind, f.Outcome)
	}
	if duty, err := r.source.Duty(ctx, r.sweep); err == nil {
		send("sweep_last_age_seconds", r.since(duty.Done, -1))
		send("sweep_failing", map[bool]float64{true: 1}[strings.HasPrefix(duty.Result, "failed")])
	}
}

// since is the time since t in seconds, or none where there is no t.
func (r read) since(t time.Time, none float64) float64 {
	if t.IsZero() {
		return none
	}
	return r.now().Sub(t).Seconds()
}
