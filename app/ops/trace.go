package ops

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/sandpiper-bot/sandpiper/app/mission"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Traces sends a span for each step. A mission is one trace, however many bots and lives of them work on it: the ids of the
// trace and of its root span are made of the mission's id. The root is sent last, when the mission ends.
type Traces struct {
	provider *trace.TracerProvider
	tracer   api.Tracer
}

// traceVariables are the variables of the OpenTelemetry specification that say where traces go; without them there are none.
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
var traceVariables = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// NewTraces makes Traces where the environment asks for them; nil where it does not. The exporter reads the environment
// itself, also for headers and certificates.
func NewTraces(ctx context.Context, version string) (*Traces, error) {
	wanted := false
	for _, name := range traceVariables {
		wanted = wanted || os.Getenv(name) != ""
	}
	if !wanted {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return newTraces(trace.WithBatcher(exporter), version), nil
}

func newTraces(to trace.TracerProviderOption, version string) *Traces {
	name := os.Getenv("OTEL_SERVICE_NAME")
	if name == "" {
		name = "sandpiper"
	}
	about := resource.NewSchemaless(attribute.String("service.name", name), attribute.String("service.version", version))
	provider := trace.NewTracerProvider(to, trace.WithResource(about), trace.WithIDGenerator(ids{}))
	return &Traces{provider: provider, tracer: provider.Tracer("github.com/sandpiper-bot/sandpiper")}
}

// Close sends what has not been sent.
func (t *Traces) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// StepDone sends the span of a step, and that of the mission when it has ended.
func (t *Traces) StepDone(s mission.StepDone) {
	if s.Result == mission.ResultWaiting && s.Ended.Sub(s.Began) < time.Second {
		return // a look that found nothing to do; there is one each second
	}
	m := &s.Mission
	parent := api.ContextWithRemoteSpanContext(context.Background(), root(m.ID))
	_, span := t.tracer.Start(parent, s.Step, api.WithTimestamp(s.Began), api.WithAttributes(about(m)...))
	span.SetAttributes(attribute.String("sandpiper.result", string(s.Result)))
	if s.Err != nil && s.Result != mission.ResultWaiting {
		span.SetStatus(codes.Error, string(s.Result)) // the text of the error may hold what others wrote; the log has it
	}
	span.End(api.WithTimestamp(s.Ended))
	if m.Ended() {
		_, whole := t.tracer.Start(context.WithValue(context.Background(), rootKey{}, m.ID), "mission", api.WithNewRoot(), api.WithTimestamp(m.CreatedAt), api.WithAttributes(about(m)...))
		whole.End(api.WithTimestamp(m.EndedAt))
	}
}

func about(m *store.Mission) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("sandpiper.mission", m.ID), attribute.String("sandpiper.run", m.Run), attribute.String("sandpiper.outcome", m.Outcome),
		attribute.String("sandpiper.repository", m.Owner+"/"+m.Name), attribute.Int64("sandpiper.repository_id", m.RepositoryID),
		attribute.Int("sandpiper.number", m.Number), attribute.Int64("sandpiper.installation_id", m.InstallationID),
	}
}

// root is the span of a mission as a whole.
func root(id string) api.SpanContext {
	sum := sha256.Sum256([]byte("sandpiper mission " + id))
	return api.NewSpanContext(api.SpanContextConfig{TraceID: api.TraceID(sum[:16]), SpanID: api.SpanID(sum[16:24]), TraceFlags: api.FlagsSampled, Remote: true})
}

type rootKey struct{}

// ids gives the root span of a mission the id that its steps name as their parent, and every other span a random one.
type ids struct{}

// NewIDs implements trace.IDGenerator.
func (i ids) NewIDs(ctx context.Context) (api.TraceID, api.SpanID) {
	if id, ok := ctx.Value(rootKey{}).(string); ok {
		return root(id).TraceID(), root(id).SpanID()
	}
	var of api.TraceID
	rand.Read(of[:])
	return of, i.NewSpanID(ctx, of)
}

// NewSpanID implements trace.IDGenerator.
func (ids) NewSpanID(context.Context, api.TraceID) (id api.SpanID) {
	rand.Read(id[:])
	return id
}
