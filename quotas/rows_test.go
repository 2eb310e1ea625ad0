package quotas

import (
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Guarantee: CRE4 (threat T12): on PostgreSQL the tenant's wall stands without
// any WHERE. All tests of this package run as an owner whom the guards hold.
func TestForgottenTenantFindsNothing(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(Migrations())
		c := replica(t, db)
		for _, key := range []string{"acme/conn-1/core", "globex/conn-1/core"} {
			if err := c.Extend(t.Context(), key, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		storetest.Guarded(t, db, [2]string{"acme", "globex"})
	})
}
