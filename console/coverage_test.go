package console

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func (f *fakeDeliveries) Coverage(_ context.Context, who connector.Caller) ([]Coverage, error) {
	if who != acmeAlice {
		return nil, nil
	}
	account := connector.Account{Login: "alice<b>", Organisation: "acme"}
	return []Coverage{
		{Connection: "con_1", Provider: "sandbox", Account: account, State: "partial", Reasons: []string{"vanished", "backlog"}, Drift: 3, SweptAt: time.Now(), Vanished: true},
		{Connection: "con_2", Provider: "sandbox", Account: account, State: "unknown"},
	}, nil
}

func (f *fakeDeliveries) Accept(ctx context.Context, who connector.Caller, id connector.ConnectionID) error {
	if all, _ := f.Coverage(ctx, who); len(all) == 0 || all[0].Connection != id {
		return connector.Fail(connector.CodeNotFound, "no such connection")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved = append(f.moved, "accept "+string(id))
	return nil
}

// What is stored is on the deliveries page, and a stopped sweep goes on from there.
func TestDeliveriesPageShowsCoverage(t *testing.T) {
	t.Parallel()
	f := &fakeDeliveries{}
	b := sqlite(t, func(c *Config) { c.Deliveries = f }).as(acmeAlice)
	shows(t, b.get("/deliveries"), 200, "partial: vanished, backlog", "no event had announced: 3", "drawbridge deliveries coverage", "drawbridge deliveries accept con_1", "unknown")
	shows(t, b.post("/deliveries/con_1/accept", nil), 200)
	shows(t, b.post("/deliveries/con_2/accept", nil), 404)
	if diff := cmp.Diff([]string{"accept con_1"}, f.moved); diff != "" {
		t.Error(diff)
	}
	shows(t, sqlite(t).as(acmeAlice).post("/deliveries/con_1/accept", nil), 404)
}
