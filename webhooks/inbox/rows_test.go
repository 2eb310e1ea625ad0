package inbox

import (
	"testing"

	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Guarantee: CRE4 (threat T12): on PostgreSQL the tenant's wall stands without
// any WHERE, in every table of this package. All tests of this package run as
// an owner whom the guards hold.
func TestForgottenTenantFindsNothing(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		for _, tenant := range []string{"acme", "globex"} {
			d := delivery("d1", "7")
			d.Tenant, d.Endpoint = tenant, "whe_"+tenant
			ingest(t, b, Stored, d)
			mark(t, b, Mark{Lane: Lane{Tenant: tenant, Provider: d.Provider, Connection: d.Connection, Kind: "ticket", Object: "7"}})
		}
		storetest.Guarded(t, b.db, [2]string{"acme", "globex"})
	})
}
