package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// The conventions for generative AI are a document of their own and not stable;
// these are the two names of it that fit.
const (
	genAIOperation = attribute.Key("gen_ai.operation.name")
	genAITool      = attribute.Key("gen_ai.tool.name")
)

// Names of our own. They are stable.
const (
	keyConnector  = attribute.Key("drawbridge.connector")
	keyProvider   = attribute.Key("drawbridge.provider")
	keyStatus     = attribute.Key("drawbridge.status")
	keyCode       = attribute.Key("drawbridge.code")
	keyEffect     = attribute.Key("drawbridge.effect")
	keyOperation  = attribute.Key("drawbridge.operation.id")
	keyReplayed   = attribute.Key("drawbridge.replayed")
	keyDeprecated = attribute.Key("drawbridge.deprecated")
	keyStage      = attribute.Key("drawbridge.stage")
	keyProfile    = attribute.Key("drawbridge.profile")
	keyClass      = attribute.Key("drawbridge.class")
	keyAttempts   = attribute.Key("drawbridge.attempts")
	keyWrote      = attribute.Key("drawbridge.wrote_request")
	keyWaited     = attribute.Key("drawbridge.waited")
	keyStop       = attribute.Key("drawbridge.stop")
	keyRetryAfter = attribute.Key("drawbridge.retry_after")
)

// unknownTool stands for names that no tool has, which are a model's words.
const unknownTool = "unknown"

// codeOK is the code of calls without an error.
const codeOK = "OK"

// Begin starts the span of a call.
func (t *Telemetry) Begin(ctx context.Context, tool string) (context.Context, func(connector.Observed)) {
	if tool == "" {
		tool = unknownTool
	}
	start := time.Now()
	ctx, span := t.tracer.Start(ctx, "execute_tool "+tool, trace.WithTimestamp(start),
		trace.WithAttributes(genAIOperation.String("execute_tool"), genAITool.String(tool)))
	return ctx, func(o connector.Observed) { t.end(ctx, span, start, tool, o) }
}

func (t *Telemetry) end(ctx context.Context, span trace.Span, start time.Time, tool string, o connector.Observed) {
	ended := time.Now()
	code := codeOK
	if o.Code != 0 {
		code = o.Code.String()
	}
	if span.IsRecording() {
		attrs := []attribute.KeyValue{keyStatus.String(string(o.Status)), keyCode.String(code),
			keyEffect.String(o.Effect.Disposition.String()), keyAttempts.Int(o.Attempts)}
		if o.Connector != "" {
			attrs = append(attrs, keyConnector.String(o.Connector), keyProvider.String(o.Provider))
		}
		if o.Effect.Operation != "" {
			attrs = append(attrs, keyOperation.String(string(o.Effect.Operation)))
		}
		if o.Replayed {
			attrs = append(attrs, keyReplayed.Bool(true))
		}
		if failed(o.Code) {
			attrs = append(attrs, semconv.ErrorTypeKey.String(code))
			span.SetStatus(codes.Error, code)
		}
		span.SetAttributes(attrs...)
		at := start
		for _, s := range o.Stages {
			at = at.Add(s.Took)
			span.AddEvent("stage", trace.WithTimestamp(at), trace.WithAttributes(keyStage.String(s.Name)))
		}
	}
	span.End(trace.WithTimestamp(ended))
	t.calls.Record(ctx, ended.Sub(start).Seconds(), metric.WithAttributes(genAITool.String(tool), keyStatus.String(string(o.Status))))
	outcome := []attribute.KeyValue{genAITool.String(tool), keyCode.String(code), keyEffect.String(o.Effect.Disposition.String())}
	if o.Deprecated {
		outcome = append(outcome, keyDeprecated.Bool(true)) // whether it can go is read from this
	}
	t.outcomes.Add(ctx, 1, metric.WithAttributes(outcome...))
}

// failed leaves out what is asked of a person in the normal course of things.
func failed(c connector.Code) bool {
	switch c {
	case 0, connector.CodeApprovalRequired, connector.CodeConsentRequired:
		return false
	}
	return true
}
