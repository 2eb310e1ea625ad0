package mirror

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

// What Coverage can say.
const (
	Complete = "complete" // all objects, as of the last sweep and everything announced since
	Partial  = "partial"  // see the reasons
	Unknown  = "unknown"  // never swept under the present authorization
)

// Coverage says how far a connection's mirror can be relied on.
type Coverage struct {
	State string `json:"state"`
	// Reasons are backlog, parked, vanished, sweep_overdue and poll_overdue.
	Reasons []string `json:"reasons,omitempty"`
	// Drift counts the changes that lists found and no event had announced.
	Drift int64 `json:"drift"`
}

// Coverage reads it. What is overdue by as much again as its interval counts.
func (m *Mirror) Coverage(ctx context.Context, c connector.Connection) (Coverage, error) {
	s, _, err := m.readStream(ctx, c)
	if err != nil {
		return Coverage{}, err
	}
	v := Coverage{State: Complete, Drift: s.drift}
	if s.authz != c.AuthzVersion || s.sweptAt == 0 && !s.alarm {
		v.State = Unknown
		return v, nil
	}
	now, err := m.c.DB.Now(ctx)
	if err != nil {
		return Coverage{}, err
	}
	f := inbox.LaneFilter{Tenant: string(c.Tenant), Connection: string(c.ID), Limit: 1}
	waiting, err := m.c.Inbox.Lanes(ctx, f)
	if err != nil {
		return Coverage{}, err
	}
	f.Parked = true
	parked, err := m.c.Inbox.Lanes(ctx, f)
	if err != nil {
		return Coverage{}, err
	}
	for _, r := range []struct {
		holds bool
		name  string
	}{
		{len(waiting) > 0, "backlog"},
		{len(parked) > 0, "parked"},
		{s.alarm, "vanished"},
		{now.UnixMilli() > s.sweptAt+2*m.c.SweepEvery.Milliseconds(), "sweep_overdue"},
		{now.UnixMilli() > s.polledAt+2*m.c.PollEvery.Milliseconds(), "poll_overdue"},
	} {
		if r.holds {
			v.State, v.Reasons = Partial, append(v.Reasons, r.name)
		}
	}
	return v, nil
}
