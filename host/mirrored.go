package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

// copies serves the tickets of one provider that the mirror has. Its faults are
// logged and cost no more than a request to the provider.
type copies struct {
	h    *Host
	most time.Duration // zero: none are served
}

func (s copies) Copy(ctx context.Context, c connector.Connection, id string, maxAge time.Duration) (tickets.Ticket, time.Time, bool) {
	if maxAge = min(maxAge, s.most); maxAge <= 0 {
		return tickets.Ticket{}, time.Time{}, false
	}
	o, fetched, ok, err := s.h.Mirror.Get(ctx, c, id, maxAge)
	var kept tickets.Ticket
	if err == nil && ok {
		err = json.Unmarshal(o.Data, &kept)
	}
	if err != nil {
		s.h.log.WarnContext(ctx, "a stored copy can't be read", "connection", c.ID, slog.Any("err", err))
		return tickets.Ticket{}, time.Time{}, false
	}
	return kept, fetched, ok
}

func (s copies) State(ctx context.Context, c connector.Connection) (connector.CopyState, bool) {
	v, err := s.h.Mirror.Coverage(ctx, c)
	if err == nil && (v.State == mirror.None || v.State == mirror.Forgotten) {
		return connector.CopyState{}, false // as for most connections: no more is asked
	}
	if err == nil {
		v, err = s.h.fed(ctx, c, v)
	}
	if err != nil {
		s.h.log.WarnContext(ctx, "the state of stored copies can't be read", "connection", c.ID, slog.Any("err", err))
		return connector.CopyState{}, false
	}
	return connector.CopyState{State: v.State, Reasons: v.Reasons}, true
}
