package telemetry_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/telemetry"
)

// tree is the spans of a test, children indented under their parents, in the
// order of their starts.
func (b *house) tree() (lines []string) {
	all := b.spans.Ended()
	slices.SortStableFunc(all, func(x, y sdktrace.ReadOnlySpan) int { return x.StartTime().Compare(y.StartTime()) })
	ids := map[trace.SpanID]bool{}
	for _, s := range all {
		ids[s.SpanContext().SpanID()] = true
	}
	var below func(parent trace.SpanID, indent string)
	below = func(parent trace.SpanID, indent string) {
		for _, s := range all {
			if s.Parent().SpanID() != parent || parent == (trace.SpanID{}) && ids[s.Parent().SpanID()] {
				continue
			}
			a := attributes(s)
			line := indent + s.Name()
			for _, key := range []string{"http.response.status_code", "http.request.resend_count", "error.type", "drawbridge.code"} {
				if v, ok := a[key]; ok {
					line += fmt.Sprintf(" %s=%s", key[strings.LastIndexByte(key, '.')+1:], v)
				}
			}
			lines = append(lines, line)
			below(s.SpanContext().SpanID(), indent+"  ")
		}
	}
	below(trace.SpanID{}, "")
	return lines
}

func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, kv := range s.Attributes() {
		all[string(kv.Key)] = kv.Value.String()
	}
	return all
}

func (b *house) span(name string) sdktrace.ReadOnlySpan {
	b.t.Helper()
	for _, s := range b.spans.Ended() {
		if s.Name() == name {
			return s
		}
	}
	b.t.Fatalf("no span %q in\n%s", name, strings.Join(b.tree(), "\n"))
	return nil
}

// Guarantee: NET11
func TestTreeOfAWrite(t *testing.T) {
	b := build(t, true)
	b.approve()
	done := b.call("tickets.create", b.draft())
	if done.Status != connector.StatusSuccess {
		t.Fatalf("%+v", done.Error)
	}
	if diff := cmp.Diff([]string{
		"execute_tool tickets.create code=APPROVAL_REQUIRED",
		"execute_tool tickets.create code=OK",
		"  POST status_code=201",
		"  GET status_code=200",
	}, b.tree()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	u, err := url.Parse(b.org.URL())
	if err != nil {
		t.Fatal(err)
	}
	post := b.span("POST")
	if post.SpanKind() != trace.SpanKindClient || post.Status().Code != codes.Unset || !post.EndTime().After(post.StartTime()) {
		t.Errorf("kind %v, status %v, from %v to %v", post.SpanKind(), post.Status(), post.StartTime(), post.EndTime())
	}
	got := attributes(post)
	if got["drawbridge.waited"] == "" {
		t.Error("no time of waiting")
	}
	delete(got, "drawbridge.waited")
	if diff := cmp.Diff(map[string]string{
		"http.request.method": "POST", "http.response.status_code": "201", "server.address": u.Hostname(), "server.port": u.Port(),
		"url.scheme": "http", "drawbridge.profile": "sandbox", "drawbridge.wrote_request": "true",
	}, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	var call sdktrace.ReadOnlySpan
	for _, s := range b.spans.Ended() {
		if attributes(s)["drawbridge.code"] == "OK" {
			call = s
		}
		if attributes(s)["drawbridge.code"] == "APPROVAL_REQUIRED" && s.Status().Code != codes.Unset {
			t.Error("waiting for a person is marked as an error")
		}
	}
	if diff := cmp.Diff(map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "tickets.create", "drawbridge.connector": "tickets", "drawbridge.provider": "sandbox",
		"drawbridge.status": "success", "drawbridge.code": "OK", "drawbridge.effect": "applied", "drawbridge.attempts": "2",
		"drawbridge.operation.id": string(done.Effect.Operation),
	}, attributes(call)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	stages := 0
	for _, e := range call.Events() {
		if e.Name == "stage" {
			stages++
		}
	}
	if stages < 6 {
		t.Errorf("%d stages on the call's span", stages)
	}
}

// Guarantees: NET11, NET6
func TestTreeOfRetriesAndLostAnswers(t *testing.T) {
	b := build(t, true)
	rule := func(r sandbox.Rule) {
		t.Helper()
		if err := b.org.AddRule(r); err != nil {
			t.Fatal(err)
		}
	}
	rule(sandbox.Rule{Match: sandbox.Match{Method: "GET", Times: 1}, Effect: sandbox.Effect{Kind: "status", Status: 503}})
	if r := b.call("tickets.search", map[string]any{"query": canary, "page_size": 2, "cursor": nil}); r.Error != nil {
		t.Fatalf("%+v", r.Error)
	}
	b.approve()
	rule(sandbox.Rule{Match: sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true, Times: 1}, Effect: sandbox.Effect{Kind: "lose_answer_after_commit"}})
	if r := b.call("tickets.create", b.draft()); r.Status != connector.StatusUnknown {
		t.Fatalf("status %s", r.Status)
	}
	if diff := cmp.Diff([]string{
		"execute_tool tickets.search code=OK",
		"  GET status_code=503 type=503",
		"  GET status_code=200 resend_count=1",
		"execute_tool tickets.create code=APPROVAL_REQUIRED",
		"execute_tool tickets.create type=OUTCOME_UNKNOWN code=OUTCOME_UNKNOWN",
		"  POST type=UNAVAILABLE",
	}, b.tree()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if post := b.span("POST"); attributes(post)["drawbridge.wrote_request"] != "true" || attributes(post)["drawbridge.stop"] == "" || post.Status().Code != codes.Error {
		t.Errorf("%v, status %v", attributes(post), post.Status())
	}
	got := map[string]int64{}
	for _, p := range b.metrics()["drawbridge.outcomes"].Data.(metricdata.Sum[int64]).DataPoints {
		tool, _ := p.Attributes.Value("gen_ai.tool.name")
		code, _ := p.Attributes.Value("drawbridge.code")
		effect, _ := p.Attributes.Value("drawbridge.effect")
		got[tool.AsString()+" "+code.AsString()+" "+effect.AsString()] += p.Value
	}
	if diff := cmp.Diff(map[string]int64{
		"tickets.search OK none": 1, "tickets.create APPROVAL_REQUIRED none": 1, "tickets.create OUTCOME_UNKNOWN unknown": 1,
	}, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// Guarantee: NET11
func TestBeingHeldBack(t *testing.T) {
	b := build(t, true)
	if err := b.org.AddRule(sandbox.Rule{Match: sandbox.Match{Method: "GET", Times: 1},
		Effect: sandbox.Effect{Kind: "status", Status: 429, RetryAfter: "90"}}); err != nil {
		t.Fatal(err)
	}
	r := b.call("tickets.search", map[string]any{"query": "x", "page_size": 2, "cursor": nil})
	if r.Error == nil || r.Error.Code != connector.CodeRateLimited {
		t.Fatalf("%+v", r.Error)
	}
	// The next call meets the cooldown and sends nothing.
	r = b.call("tickets.search", map[string]any{"query": "y", "page_size": 2, "cursor": nil})
	if r.Error == nil || r.Error.Code != connector.CodeRateLimited || len(r.Attempts) != 0 {
		t.Fatalf("%+v, %d attempts", r.Error, len(r.Attempts))
	}
	var events []string
	for _, s := range b.spans.Ended() {
		for _, e := range s.Events() {
			if e.Name != "stage" {
				events = append(events, e.Name)
			}
		}
	}
	if diff := cmp.Diff([]string{"drawbridge.held_back", "drawbridge.refused", "drawbridge.held_back"}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	m := b.metrics()
	if points := m["drawbridge.cooldown"].Data.(metricdata.Histogram[float64]).DataPoints; len(points) != 1 || points[0].Count != 2 || points[0].Sum < 170 || points[0].Sum > 180 {
		t.Errorf("cooldowns %+v", points)
	}
	refusals := m["drawbridge.refusals"].Data.(metricdata.Sum[int64]).DataPoints
	if len(refusals) != 1 || refusals[0].Value != 1 {
		t.Errorf("refusals %+v", refusals)
	}
}

// Guarantee: NET11
func TestMetricsHaveStandardNamesAndUnits(t *testing.T) {
	b := build(t, true)
	b.call("tickets.search", map[string]any{"query": "x", "page_size": 2, "cursor": nil})
	b.call("tickets.get", map[string]any{"id": "nothing-like-it"})
	b.call(canary, map[string]any{}) // there is no such tool
	m := b.metrics()
	units := map[string]string{}
	for name, data := range m {
		units[name] = data.Unit
	}
	if diff := cmp.Diff(map[string]string{
		"http.client.request.duration": "s", "drawbridge.call.duration": "s", "drawbridge.outcomes": "{call}", "drawbridge.attempts": "{request}",
		"drawbridge.queue.wait": "s",
	}, units); diff != "" {
		t.Errorf("instruments (-want +got):\n%s", diff)
	}
	keys := map[string]bool{}
	var requests uint64
	for _, p := range m["http.client.request.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
		requests += p.Count
		for _, kv := range p.Attributes.ToSlice() {
			keys[string(kv.Key)] = true
		}
		if len(p.Bounds) != 14 || p.Bounds[0] != 0.005 {
			t.Errorf("buckets %v are not those of the conventions", p.Bounds)
		}
	}
	if requests != 2 {
		t.Errorf("%d requests, want 2", requests)
	}
	if diff := cmp.Diff([]string{"error.type", "http.request.method", "http.response.status_code", "server.address", "server.port", "url.scheme"},
		slices.Sorted(maps.Keys(keys))); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	tools := map[string]uint64{}
	for _, p := range m["drawbridge.call.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
		v, _ := p.Attributes.Value("gen_ai.tool.name")
		tools[v.AsString()] += p.Count
	}
	if diff := cmp.Diff(map[string]uint64{"tickets.search": 1, "tickets.get": 1, "unknown": 1}, tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// Guarantees: NET10, NET11
func TestNoSecretAndNoPersonInAnyAttribute(t *testing.T) {
	b := build(t, true)
	b.approve()
	b.call("tickets.create", b.draft())
	b.call("tickets.search", map[string]any{"query": canary + "-query", "page_size": 2, "cursor": nil})
	b.call(canary+"-tool", map[string]any{})
	b.call("tickets.get", map[string]any{"id": canary})
	b.runtime.Execute(t.Context(), caller, connector.Call{ID: canary + "-call", Step: canary, Tool: "tickets.get", Arguments: json.RawMessage(`{"` + canary)})
	if err := b.org.AddRule(sandbox.Rule{Match: sandbox.Match{Method: "GET", Times: 1}, Effect: sandbox.Effect{
		Kind: "status", Status: 404, Body: `{"error":"` + canary + `"}`, Header: map[string]string{"X-Request-Id": canary, "X-Canary": canary}}}); err != nil {
		t.Fatal(err)
	}
	b.call("tickets.search", map[string]any{"query": "x", "page_size": 2, "cursor": nil})

	var out strings.Builder
	dump := func(kvs []attribute.KeyValue) {
		for _, kv := range kvs {
			fmt.Fprintf(&out, "%s=%s\n", kv.Key, kv.Value.String())
		}
	}
	for _, s := range b.spans.Ended() {
		fmt.Fprintln(&out, s.Name(), s.Status().Description, s.SpanContext().TraceState().String())
		dump(s.Attributes())
		for _, e := range s.Events() {
			fmt.Fprintln(&out, e.Name)
			dump(e.Attributes)
		}
		for _, l := range s.Links() {
			dump(l.Attributes)
		}
	}
	raw, err := json.Marshal(b.metrics())
	if err != nil {
		t.Fatal(err)
	}
	out.Write(raw)
	if n := strings.Count(out.String(), "\n"); n < 60 {
		t.Fatalf("only %d lines were looked at", n)
	}
	conn, err := b.host.Credentials.Resolve(t.Context(), caller, "sandbox", nil)
	if err != nil {
		t.Fatal(err)
	}
	secrets := append(b.org.Canaries(), canary, "alice", string(conn.ID), "/api/v1", "Bearer")
	for _, secret := range secrets {
		if strings.Contains(out.String(), secret) {
			i := strings.Index(out.String(), secret)
			t.Errorf("%q is in the telemetry: ...%s", secret, out.String()[max(0, i-60):i+len(secret)])
		}
	}
}

// Trace context and baggage stay here: nothing of it reaches the provider.
func TestProviderGetsNoTraceContext(t *testing.T) {
	b := build(t, true)
	b.call("tickets.search", map[string]any{"query": "x", "page_size": 2, "cursor": nil})
	for _, r := range b.org.Requests() {
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range b.spans.Ended() {
			if strings.Contains(string(raw), s.SpanContext().TraceID().String()) {
				t.Errorf("a request carries a trace id: %s", raw)
			}
		}
	}
}

func TestNoProvidersNoTelemetry(t *testing.T) {
	tel, err := telemetry.New(telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := tel.Begin(t.Context(), "tickets.get")
	end(connector.Observed{Status: connector.StatusSuccess})
	if trace.SpanFromContext(ctx).IsRecording() {
		t.Error("a span is recorded without a provider")
	}
	b := build(t, false)
	if r := b.call("tickets.search", map[string]any{"query": "x", "page_size": 2, "cursor": nil}); r.Error != nil {
		t.Errorf("%+v", r.Error)
	}
	if got := b.tree(); len(got) != 0 {
		t.Errorf("spans without an observer: %v", got)
	}
}

// What the connection pool sent again by itself is a span of its own (G16).
func TestRequestsThatThePoolRepeated(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tel, err := telemetry.New(telemetry.Config{Tracers: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tel.Attempted(t.Context(), transport.Attempted{Profile: "org", Method: "GET", Scheme: "https", Host: "api.example.com", Port: 443, Ended: start.Add(3 * time.Second),
		Rows: []connector.Attempt{
			{N: 1, Started: start, WroteRequest: true, Stop: "repeated by the connection pool"},
			{N: 2, Started: start.Add(time.Second), WroteRequest: true, Status: 200},
		}})
	var got []string
	for _, s := range spans.Ended() {
		a := attributes(s)
		got = append(got, fmt.Sprintf("%s %s [%s] [%s] [%s]", s.StartTime().Sub(start), s.EndTime().Sub(start), a["error.type"], a["http.request.resend_count"], a["http.response.status_code"]))
	}
	if diff := cmp.Diff([]string{"0s 1s [connection_lost] [] []", "1s 3s [] [1] [200]"}, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}
