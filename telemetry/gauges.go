package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A Gauge is something whose state can be read at any moment.
type Gauge struct {
	Name string
	Unit string // of UCUM, such as s or {delivery}
	Doc  string
}

// A Reading is one value of a gauge. Label and Name set it apart from others of the
// same gauge; empty: there is one only. Names are from closed lists.
type Reading struct {
	Gauge string
	Value float64
	Label string
	Name  string
}

// Observe has gauges read whenever metrics are collected, all of them with one call of
// read. Nil meters: never. What read does not mention has no value then; after an error
// none has.
func Observe(meters metric.MeterProvider, gauges []Gauge, read func(context.Context) ([]Reading, error)) error {
	if meters == nil {
		return nil
	}
	meter := meters.Meter(scope)
	known := map[string]metric.Float64ObservableGauge{}
	var all []metric.Observable
	for _, g := range gauges {
		made, err := meter.Float64ObservableGauge(g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.Doc))
		if err != nil {
			return err
		}
		known[g.Name] = made
		all = append(all, made)
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		readings, err := read(ctx)
		if err != nil {
			return fmt.Errorf("gauges can't be read: %w", err)
		}
		for _, r := range readings {
			if r.Label == "" {
				o.ObserveFloat64(known[r.Gauge], r.Value)
				continue
			}
			o.ObserveFloat64(known[r.Gauge], r.Value, metric.WithAttributes(attribute.String(r.Label, r.Name)))
		}
		return nil
	}, all...)
	return err
}
