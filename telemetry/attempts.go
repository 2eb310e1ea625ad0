package telemetry

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// Attempted writes one span and one duration for each request of a round trip.
// They are written after the fact with their own times, because only then it
// is known how many requests there were.
func (t *Telemetry) Attempted(ctx context.Context, a transport.Attempted) {
	for i, row := range a.Rows {
		ended, last := a.Ended, i == len(a.Rows)-1
		if !last {
			ended = a.Rows[i+1].Started
		}
		attrs := []attribute.KeyValue{
			semconv.HTTPRequestMethodKey.String(a.Method), semconv.ServerAddress(a.Host), semconv.ServerPort(int(a.Port)), semconv.URLScheme(a.Scheme),
		}
		if row.Status != 0 {
			attrs = append(attrs, semconv.HTTPResponseStatusCode(row.Status))
		}
		problem := ""
		switch {
		case !last:
			problem = "connection_lost"
		case a.Code != 0:
			problem = a.Code.String()
		case row.Status >= 400:
			problem = strconv.Itoa(row.Status)
		}
		if problem != "" {
			attrs = append(attrs, semconv.ErrorTypeKey.String(problem))
		}
		t.requests.Record(ctx, ended.Sub(row.Started).Seconds(), metric.WithAttributes(attrs...))

		_, span := t.tracer.Start(ctx, a.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(row.Started), trace.WithAttributes(attrs...))
		if span.IsRecording() {
			span.SetAttributes(keyProfile.String(a.Profile), keyWrote.Bool(row.WroteRequest), keyWaited.Float64(row.Waited.Seconds()))
			if row.N > 1 {
				span.SetAttributes(semconv.HTTPRequestResendCount(row.N - 1))
			}
			if row.Stop != "" {
				span.SetAttributes(keyStop.String(row.Stop))
			}
			if problem != "" {
				span.SetStatus(codes.Error, problem)
			}
		}
		span.End(trace.WithTimestamp(ended))
	}
}

// Called counts one read or write, and marks on the call's span what kept it
// from being sent or asked it to wait.
func (t *Telemetry) Called(ctx context.Context, c transport.Called) {
	class := keyClass.String("read")
	if c.Write {
		class = keyClass.String("write")
	}
	profile := keyProfile.String(c.Profile)
	t.attempts.Record(ctx, int64(c.Attempts), metric.WithAttributes(profile, class))
	if c.Attempts > 0 {
		t.queued.Record(ctx, c.Queued.Seconds(), metric.WithAttributes(profile))
	}
	span := trace.SpanFromContext(ctx)
	if c.Attempts == 0 && c.Code != 0 {
		code := keyCode.String(c.Code.String())
		t.refusals.Add(ctx, 1, metric.WithAttributes(profile, class, code))
		span.AddEvent("drawbridge.refused", trace.WithAttributes(profile, class, code))
	}
	if c.RetryAfter > 0 {
		t.cooldowns.Record(ctx, c.RetryAfter.Seconds(), metric.WithAttributes(profile))
		span.AddEvent("drawbridge.held_back", trace.WithAttributes(profile, keyRetryAfter.Float64(c.RetryAfter.Seconds())))
	}
}
