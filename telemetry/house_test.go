package telemetry_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/telemetry"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary stands in everything that a caller, a model or a person says.
const canary = "canary-4be7"

const browser = canary + "-browser-key"

var caller = connector.Caller{Tenant: canary + "-tenant", Principal: canary + "-person", Run: canary + "-run"}

// silent is an Auditor for tests that are not about the audit.
type silent struct{}

func (silent) Record(context.Context, connector.AuditRecord) error { return nil }

// A house is the real runtime over the real transport and the sandbox.
type house struct {
	t       *testing.T
	org     *sandbox.Server
	host    *host.Host
	runtime *connector.Runtime
	spans   *tracetest.SpanRecorder
	reader  *sdkmetric.ManualReader
}

func build(t *testing.T, observed bool) *house {
	t.Helper()
	org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	dir := t.TempDir()
	h, err := host.Open(t.Context(), host.Config{Data: dir, Policy: host.Local{}, Consent: host.Local{},
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL())}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	b := &house{t: t, org: org, host: h, spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	tel, err := telemetry.New(telemetry.Config{
		Tracers: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans)),
		Meters:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.OpenFile(filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	codec, err := cursors.New(cursors.Config{Keys: ring})
	if err != nil {
		t.Fatal(err)
	}
	profile := transport.Loopback("sandbox", org.URL())
	profile.Limits.Rate, profile.Limits.Burst = 1000, 1000
	tc := transport.Config{Profiles: transport.Static{"sandbox": profile}, Credentials: h.Credentials}
	con := tickets.New(sandboxorg.Driver{})
	con.Provider = "sandbox"
	rc := connector.Config{Connectors: []connector.Connector{con}, Policy: host.Local{}, Consent: host.Local{},
		Connections: h.Credentials, Cursors: codec, Operations: h.Ledger, Auditor: silent{}}
	if observed {
		tc.Observer, rc.Observer = tel, tel
	}
	tr, err := transport.New(tc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	rc.Transport = tr
	if b.runtime, err = connector.New(rc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.runtime.Close)
	b.connect()
	return b
}

// connect lets alice agree, as in a browser.
func (b *house) connect() {
	b.t.Helper()
	begun, err := b.host.Credentials.Begin(b.t.Context(), caller, credentials.BeginRequest{
		Provider: "sandbox", RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: browser})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, u := range b.org.Users() {
		if u.Login != "alice" {
			continue
		}
		back, err := sandbox.Login(b.t.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, begun.URL, "alice", u.Password, true)
		if err != nil {
			b.t.Fatal(err)
		}
		r, _ := b.host.Runtime("sandbox")
		if _, err := b.host.Credentials.Finish(b.t.Context(), caller, browser, back.Query(), r.Identify); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *house) call(tool string, arguments any) connector.Result {
	b.t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.runtime.Execute(b.t.Context(), caller, connector.Call{Tool: tool, Arguments: raw})
}

func (b *house) draft() tickets.Draft {
	return tickets.Draft{Project: "orders", Title: canary + " title", Body: canary + " body", Severity: "low"}
}

// approve proposes a ticket and lets a person agree.
func (b *house) approve() {
	b.t.Helper()
	asked := b.call("tickets.create", b.draft())
	if asked.Pending == nil {
		b.t.Fatalf("no proposal: %+v", asked.Error)
	}
	if _, err := b.host.Ledger.Approve(b.t.Context(), caller.Tenant, string(asked.Pending.Approval), canary); err != nil {
		b.t.Fatal(err)
	}
}

// metrics are the data of each instrument by its name.
func (b *house) metrics() map[string]metricdata.Metrics {
	b.t.Helper()
	var all metricdata.ResourceMetrics
	if err := b.reader.Collect(b.t.Context(), &all); err != nil {
		b.t.Fatal(err)
	}
	byName := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}
