package kit

import (
	"net"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// longSettle is more than a check waits.
const longSettle = 35 * time.Second

// settle looks an unknown write up until it is over, or until a look-up that
// began after the settle time has come back: by then an absence would be
// believed.
func (a *account) settle(r connector.Result) connector.OperationRecord {
	began := time.Now()
	rec, err := a.house.ledger.Get(a.ctx, a.caller.Tenant, r.Effect.Operation)
	a.must(err)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		late := time.Now().After(rec.DispatchedAt.Add(rec.Settle))
		looked, err := a.house.runtime.Settle(a.ctx, a.caller.Tenant, rec.ID)
		if err == nil && (late || looked.State != connector.StateUnknown) {
			return looked
		}
		a.must(a.ctx.Err())
		if time.Since(began) > longSettle {
			a.notClaimed("the connector declares a settle time of %s, longer than a check waits", rec.Settle)
		}
		time.Sleep(wait)
	}
}

// closedAddress is where nothing listens any more.
func closedAddress(t *trial) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	t.must(err)
	t.must(l.Close())
	return "http://" + l.Addr().String()
}
