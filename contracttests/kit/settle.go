package kit

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// due looks an operation up until it is over, as long as the context lasts. The
// record is the last one either way.
func (h *house) due(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (connector.OperationRecord, error) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		rec, err := h.runtime.Settle(ctx, tenant, id)
		if err != nil {
			if rec, err = h.ledger.Get(context.WithoutCancel(ctx), tenant, id); err != nil {
				return rec, err
			}
		}
		if rec.State != connector.StateUnknown && rec.State != connector.StateDispatching {
			return rec, nil
		}
		select {
		case <-ctx.Done():
			return rec, fmt.Errorf("still %s (%s)", rec.State, rec.Reason)
		case <-time.After(wait):
		}
	}
}

// longSettle is more than a check waits.
const longSettle = 35 * time.Second

// lookPast looks an operation up until it is over, or until an absence of it
// would have been believed for a while. Then it returns what is known.
func (a *account) lookPast(r connector.Result) connector.OperationRecord {
	rec, err := a.house.ledger.Get(a.ctx, a.caller.Tenant, r.Effect.Operation)
	a.must(err)
	if rec.Settle > longSettle {
		a.notClaimed("the connector declares a settle time of %s, longer than a check waits", rec.Settle)
	}
	ctx, cancel := context.WithTimeout(a.ctx, max(0, time.Until(rec.DispatchedAt.Add(rec.Settle)))+300*time.Millisecond)
	defer cancel()
	rec, err = a.house.due(ctx, a.caller.Tenant, rec.ID)
	if rec.ID == "" {
		a.must(err)
	}
	return rec
}

// closedAddress is where nothing listens any more.
func closedAddress(t *trial) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	t.must(err)
	t.must(l.Close())
	return "http://" + l.Addr().String()
}
