package host_test

import (
	"encoding/json"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/telemetry"
)

// Guarantee: NET11
func TestTheHostPassesTelemetryOn(t *testing.T) {
	org := startOrg(t)
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	defer provider.Shutdown(t.Context())
	measured, err := telemetry.New(telemetry.Config{Tracers: provider})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(t.Context(), host.Config{
		Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{}, Telemetry: measured,
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL())}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	connect(t, h, org)
	spans.Reset()
	r, _ := h.Runtime("sandbox")
	if got := r.Execute(t.Context(), alice, connector.Call{Tool: "tickets.get", Arguments: json.RawMessage(`{"id":"007"}`)}); got.Status != connector.StatusSuccess {
		t.Fatalf("%s %+v", got.Status, got.Error)
	}
	var names []string
	for _, s := range spans.GetSpans() {
		names = append(names, s.Name)
	}
	if len(names) != 2 || names[0] != "GET" || names[1] != "execute_tool tickets.get" {
		t.Errorf("spans: %v", names)
	}
}
