package operations

import (
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Guarantee: CRE4 (threat T12): on PostgreSQL the tenant's wall stands without
// any WHERE, in every table of this package. All tests of this package run as
// an owner whom the guards hold.
func TestForgottenTenantFindsNothing(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		a := newAudit(t, AuditConfig{DB: b.db})
		for _, tenant := range []connector.TenantID{acme, other} {
			b.approve(b.propose(proposal(tenant, "intent", "printer on fire")))
			r := auditRecord("call")
			r.Tenant = tenant
			if err := a.Record(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		storetest.Guarded(t, b.db, [2]string{string(acme), string(other)})
	})
}
