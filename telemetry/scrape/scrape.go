// Package scrape is metrics for Prometheus, and whatever else reads its format.
package scrape

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// New makes a meter provider, and the page on which its metrics are read together with
// those of the Go runtime. The page shows no id and no name of a person, but it is for
// operators all the same: serve it where only they get. Nothing of it is global.
func New() (*sdk.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(collectors.NewGoCollector()); err != nil {
		return nil, nil, err
	}
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, nil, err
	}
	// One scrape at a time: each reads the database.
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 1, ErrorHandling: promhttp.ContinueOnError})
	return sdk.NewMeterProvider(sdk.WithReader(reader)), page, nil
}
