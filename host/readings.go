package host

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/telemetry"
)

// Gauges are what Readings reads. Values are of the whole database, whichever of its
// processes is asked, except what a name or its text says is of this process.
var Gauges = []telemetry.Gauge{
	{Name: "drawbridge.deliveries.waiting", Unit: "{delivery}", Doc: "Stored deliveries that wait to be decoded."},
	{Name: "drawbridge.deliveries.oldest", Unit: "s", Doc: "Age of the oldest of them."},
	{Name: "drawbridge.deliveries.quarantined", Unit: "{delivery}", Doc: "Deliveries that can't be decoded, by reason."},
	{Name: "drawbridge.deliveries.ignored", Unit: "{delivery}", Doc: "Deliveries that concern nothing here, by reason."},
	{Name: "drawbridge.deliveries.duplicates", Unit: "{delivery}", Doc: "Deliveries that came again."},
	{Name: "drawbridge.deliveries.conflicts", Unit: "{delivery}", Doc: "Deliveries under the id of another with another body."},
	{Name: "drawbridge.deliveries.received", Unit: "{request}", Doc: "Requests of senders since this process began, by outcome."},
	{Name: "drawbridge.lanes.dirty", Unit: "{lane}", Doc: "Resources with changes that wait to be applied."},
	{Name: "drawbridge.lanes.oldest", Unit: "s", Doc: "Age of the oldest change that waits."},
	{Name: "drawbridge.lanes.parked", Unit: "{lane}", Doc: "Resources that failed too often and wait for a person."},
	{Name: "drawbridge.connections.paused", Unit: "{connection}", Doc: "Connections whose provider asked to stay away."},
	{Name: "drawbridge.mirror.followed", Unit: "{connection}", Doc: "Connections whose objects are followed."},
	{Name: "drawbridge.mirror.stopped", Unit: "{connection}", Doc: "Sweeps that missed so much that a person has to look."},
	{Name: "drawbridge.mirror.drift", Unit: "{change}", Doc: "Changes that lists found and no event had announced."},
	{Name: "drawbridge.operations.unknown", Unit: "{operation}", Doc: "Writes whose outcome is not known yet."},
	{Name: "drawbridge.operations.oldest_unknown", Unit: "s", Doc: "Time since the first of them left."},
	{Name: "drawbridge.operations.unresolved", Unit: "{operation}", Doc: "Writes that no look-up settled; a person decides."},
	{Name: "drawbridge.approvals.open", Unit: "{approval}", Doc: "Approvals that wait for a person or for their use."},
}

// Readings reads the gauges once.
func (h *Host) Readings(ctx context.Context) (all []telemetry.Reading, err error) {
	now, err := h.DB.Now(ctx)
	if err != nil {
		return nil, err
	}
	hooks, err := h.Webhooks.Stats(ctx)
	if err != nil {
		return nil, err
	}
	mirrored, err := h.Mirror.Stats(ctx)
	if err != nil {
		return nil, err
	}
	writes, err := h.Ledger.Open(ctx)
	if err != nil {
		return nil, err
	}
	age := func(t *time.Time) float64 {
		if t == nil {
			return 0
		}
		return max(0, now.Sub(*t).Seconds())
	}
	for name, value := range map[string]float64{
		"deliveries.waiting": float64(hooks.Waiting), "deliveries.oldest": age(hooks.OldestWaiting),
		"deliveries.duplicates": float64(hooks.Duplicates), "deliveries.conflicts": float64(hooks.Conflicts),
		"lanes.dirty": float64(hooks.Dirty), "lanes.oldest": age(hooks.OldestDirty), "lanes.parked": float64(hooks.Parked),
		"connections.paused": float64(hooks.Paused),
		"mirror.followed":    float64(mirrored.Followed), "mirror.stopped": float64(mirrored.Stopped), "mirror.drift": float64(mirrored.Drift),
		"operations.unknown": float64(writes.Unknown), "operations.oldest_unknown": age(writes.OldestUnknown),
		"operations.unresolved": float64(writes.Unresolved), "approvals.open": float64(writes.Approvals),
	} {
		all = append(all, telemetry.Reading{Gauge: "drawbridge." + name, Value: value})
	}
	labelled := func(name, label string, counts map[string]int) {
		for key, n := range counts {
			all = append(all, telemetry.Reading{Gauge: "drawbridge." + name, Value: float64(n), Label: label, Name: key})
		}
	}
	labelled("deliveries.quarantined", "drawbridge.reason", hooks.Quarantined)
	labelled("deliveries.ignored", "drawbridge.reason", hooks.Ignored)
	for key, n := range hooks.Received {
		all = append(all, telemetry.Reading{Gauge: "drawbridge.deliveries.received", Value: float64(n), Label: "drawbridge.outcome", Name: key})
	}
	return all, nil
}
