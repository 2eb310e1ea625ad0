package edge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestRates(t *testing.T) {
	d := newDoor(t, Config{Verifier: verifierFunc(func(token string) (Identity, error) {
		tenant, who, _ := strings.Cut(token, ".")
		return Identity{Caller: connector.Caller{Tenant: connector.TenantID(tenant), Principal: connector.PrincipalID(who)}}, nil
	}), Limits: Limits{Principal: 2, Tenant: 4, Tool: 1}})
	now := time.Now()
	d.edge.rates.now = func() time.Time { return now }
	count := func(n int, token, body string) (ok int, retry string) {
		for range n {
			resp := d.send(body, token)
			if resp.StatusCode == 200 {
				ok++
			} else if resp.StatusCode == 429 {
				retry = resp.Header.Get("Retry-After")
			} else {
				t.Fatal(resp.StatusCode)
			}
		}
		return ok, retry
	}
	if ok, retry := count(10, "acme.alice", ping); ok != 4 || retry != "1" {
		t.Errorf("a principal had %d, then wait %s", ok, retry)
	}
	if ok, _ := count(10, "acme.bob", toolCall("desk.get")); ok != 2 {
		t.Errorf("a tool was called %d times", ok)
	}
	count(10, "acme.carol", ping)
	if ok, _ := count(10, "acme.dave", ping); ok != 0 {
		t.Errorf("a tenant's fourth principal had %d", ok)
	}
	if ok, _ := count(10, "globex.alice", ping); ok != 4 {
		t.Errorf("another tenant's principal had %d", ok)
	}
	now = now.Add(time.Second)
	if ok, _ := count(10, "acme.alice", ping); ok != 2 {
		t.Errorf("a second later a principal had %d", ok)
	}
	kept := d.edge.rates.order.Len()
	for i := range 1000 {
		d.edge.rates.take(connector.Caller{Tenant: "acme", Principal: "alice"}, fmt.Sprint("made-up-", i))
	}
	if n := d.edge.rates.order.Len() - kept; n > 4 {
		t.Errorf("refused calls of made-up tools are remembered in %d buckets", n)
	}
	for i := range maxBuckets + 100 {
		d.edge.rates.take(connector.Caller{Tenant: "t", Principal: connector.PrincipalID(fmt.Sprint(i))}, "")
	}
	if n := d.edge.rates.order.Len(); n != maxBuckets || len(d.edge.rates.byKey) != maxBuckets {
		t.Errorf("%d buckets are kept", n)
	}
}
