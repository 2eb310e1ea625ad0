package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

const scope = "github.com/drawbridge-dev/drawbridge"

// Config says where spans and metrics go.
type Config struct {
	Tracers trace.TracerProvider // nil: no spans
	Meters  metric.MeterProvider // nil: no metrics
}

// Telemetry is the Observer of runtimes and transports. It is safe for
// concurrent use and may serve any number of both.
type Telemetry struct {
	tracer trace.Tracer

	calls     metric.Float64Histogram
	outcomes  metric.Int64Counter
	requests  metric.Float64Histogram
	attempts  metric.Int64Histogram
	queued    metric.Float64Histogram
	cooldowns metric.Float64Histogram
	refusals  metric.Int64Counter
}

var (
	_ connector.Observer = (*Telemetry)(nil)
	_ transport.Observer = (*Telemetry)(nil)
)

// Buckets that the semantic conventions advise for the duration of requests, and
// some for what takes minutes.
var (
	seconds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	waits   = []float64{1, 5, 15, 30, 60, 300, 900, 3600}
	counts  = []float64{0, 1, 2, 3, 5, 10}
)

// New makes the instruments. The error is the meter provider's.
func New(c Config) (*Telemetry, error) {
	if c.Tracers == nil {
		c.Tracers = tracenoop.NewTracerProvider()
	}
	if c.Meters == nil {
		c.Meters = metricnoop.NewMeterProvider()
	}
	t := &Telemetry{tracer: c.Tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))}
	m := c.Meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	var errs []error
	histogram := func(name, doc string, buckets []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(doc), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, doc string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(doc))
		errs = append(errs, err)
		return c
	}
	t.calls = histogram("drawbridge.call.duration", "Duration of calls, from proposal to result.", seconds)
	t.outcomes = counter("drawbridge.outcomes", "{call}", "Calls by what they came to.")
	standard, err := httpconv.NewClientRequestDuration(m, metric.WithExplicitBucketBoundaries(seconds...))
	t.requests = standard.Inst()
	errs = append(errs, err)
	t.attempts, err = m.Int64Histogram("drawbridge.attempts", metric.WithUnit("{request}"),
		metric.WithDescription("Requests on the wire for one read or write."), metric.WithExplicitBucketBoundaries(counts...))
	errs = append(errs, err)
	t.queued = histogram("drawbridge.queue.wait", "Waiting for the connection's turn before the first request.", seconds)
	t.cooldowns = histogram("drawbridge.cooldown", "How long to stay away, by the provider's word or by our own.", waits)
	t.refusals = counter("drawbridge.refusals", "{request}", "Reads and writes of which nothing was sent.")
	return t, errors.Join(errs...)
}
