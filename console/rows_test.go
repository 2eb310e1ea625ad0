package console

import (
	"testing"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Guarantee: CRE4 (threat T12): on PostgreSQL the tenant's wall stands without
// any WHERE, in every table of this package. All tests of this package run as
// an owner whom the guards hold.
func TestForgottenTenantFindsNothing(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(Migrations())
		for _, tenant := range []string{"acme", "globex"} {
			err := db.UpdateFor(t.Context(), store.Tenant(tenant), func(tx *store.Tx) error {
				if _, err := tx.Exec(t.Context(), `INSERT INTO console_session (token_hash, tenant, principal, name, created_at, seen_at, expires_at)
					VALUES (?, ?, 'alice', 'Alice', 1, 1, 2)`, hash("session of "+tenant), tenant); err != nil {
					return err
				}
				_, err := tx.Exec(t.Context(), `INSERT INTO console_link (token_hash, kind, tenant, principal, provider, scopes, connection, expires_at)
					VALUES (?, 'connect', ?, 'alice', 'sandbox', 'null', '', 2)`, hash("link of "+tenant), tenant)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		storetest.Guarded(t, db, [2]string{"acme", "globex"})
	})
}
