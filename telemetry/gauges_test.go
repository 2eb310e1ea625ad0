package telemetry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/telemetry"
)

// Guarantee: NET11
func TestGaugesAreReadOnceForEachCollection(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	reads, fault := 0, error(nil)
	err := telemetry.Observe(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		[]telemetry.Gauge{{Name: "a", Unit: "s", Doc: "A."}, {Name: "b"}, {Name: "silent"}},
		func(context.Context) ([]telemetry.Reading, error) {
			reads++
			return []telemetry.Reading{{Gauge: "a", Value: 1.5}, {Gauge: "b", Value: 2, Label: "kind", Name: "x"}, {Gauge: "b", Value: 3, Label: "kind", Name: "y"}}, fault
		})
	if err != nil {
		t.Fatal(err)
	}
	collect := func() (map[string]float64, error) {
		var got metricdata.ResourceMetrics
		err := reader.Collect(t.Context(), &got)
		values := map[string]float64{}
		for _, s := range got.ScopeMetrics {
			for _, m := range s.Metrics {
				for _, p := range m.Data.(metricdata.Gauge[float64]).DataPoints {
					kind, _ := p.Attributes.Value("kind")
					values[m.Name+kind.AsString()] = p.Value
				}
			}
		}
		return values, err
	}
	values, err := collect()
	if diff := cmp.Diff(map[string]float64{"a": 1.5, "bx": 2, "by": 3}, values); diff != "" || err != nil || reads != 1 {
		t.Errorf("%d reads, %v (-want +got):\n%s", reads, err, diff)
	}
	fault = errors.New("the database is away")
	if values, err := collect(); err == nil || len(values) != 0 {
		t.Errorf("after a fault: %v, %v", values, err)
	}
	if err := telemetry.Observe(nil, nil, nil); err != nil {
		t.Error(err)
	}
}

// Guarantee: CON8
func TestUseOfADeprecatedToolIsCounted(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	tel, err := telemetry.New(telemetry.Config{Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	for tool, deprecated := range map[string]bool{"old.get": true, "new.get": false} {
		_, end := tel.Begin(t.Context(), tool)
		end(connector.Observed{Status: connector.StatusSuccess, Deprecated: deprecated})
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		if m.Name != "drawbridge.outcomes" {
			continue
		}
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			tool, _ := p.Attributes.Value("gen_ai.tool.name")
			_, counted[tool.AsString()] = p.Attributes.Value("drawbridge.deprecated")
		}
	}
	if diff := cmp.Diff(map[string]bool{"old.get": true, "new.get": false}, counted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
