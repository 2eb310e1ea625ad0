package credentials

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Guarantee: CRE4 (threat T12): on PostgreSQL the tenant's wall stands without
// any WHERE, for the owner of the tables too, in every table of this package.
// All tests of this package run as such an owner.
func TestForgottenTenantFindsNothing(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		if b.d.Engine != store.PostgreSQL {
			return // SQLite has no such guard
		}
		r := b.replica()
		// A row in each table, of each tenant.
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/revoke"}, Effect: sandbox.Effect{Kind: "status", Status: 503}}}})
		mine, theirs := r.connect(alice, "alice"), r.connect(carol, "carol")
		for _, c := range []struct {
			tenant string
			gone   func() error
		}{
			{"acme", func() error { _, err := r.Disconnect(t.Context(), bob, r.connect(bob, "bob").ID, ""); return err }},
			{"globex", func() error {
				other := carol
				other.Principal = "zoe"
				_, err := r.Disconnect(t.Context(), other, r.connect(other, "carol").ID, "")
				return err
			}},
		} {
			if err := c.gone(); err != nil {
				t.Fatalf("%s: %v", c.tenant, err)
			}
		}
		b.expire(mine)
		b.expire(theirs)
		for _, c := range []func() (int, error){func() (int, error) { return r.get(mine) }, func() (int, error) { return r.get(theirs) }} {
			if status, err := c(); status != 200 {
				t.Fatalf("read = %d, %v", status, err)
			}
		}
		var super bool
		if err := b.db.QueryRow(t.Context(), `SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user`).Scan(&super); err != nil || super {
			t.Fatalf("the role passes guards (%v, %v): nothing would be shown", super, err)
		}
		var tables []string
		err := b.db.EachFor(t.Context(), store.Scope{}, func(row store.Scanner) error {
			var name, owner string
			var on, forced bool
			err := row.Scan(&name, &owner, &on, &forced)
			if !on || !forced {
				t.Errorf("table %s is not guarded for its owner", name)
			}
			tables = append(tables, name)
			return err
		}, `SELECT c.relname, pg_get_userbyid(c.relowner), c.relrowsecurity, c.relforcerowsecurity FROM pg_class c
			WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname LIKE 'cred\_%' ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"cred_attempts", "cred_audit", "cred_connections", "cred_revocations", "cred_tokens", "cred_transactions"}, tables); diff != "" {
			t.Errorf("tables (-want +got):\n%s", diff)
		}
		tenants := func(tx *store.Tx, table string) (own, foreign int) {
			t.Helper()
			if err := tx.QueryRow(t.Context(), fmt.Sprintf(`SELECT count(*) FILTER (WHERE tenant_id = 'acme'), count(*) FILTER (WHERE tenant_id <> 'acme') FROM %s`, table)).Scan(&own, &foreign); err != nil {
				t.Fatal(err)
			}
			return own, foreign
		}
		for _, table := range tables {
			if err := b.db.ViewFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
				if own, foreign := tenants(tx, table); own == 0 || foreign == 0 {
					t.Errorf("%s has %d and %d rows: nothing would be shown", table, own, foreign)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, whose := range []store.Scope{scope("acme"), {}} {
				if err := b.db.UpdateFor(t.Context(), whose, func(tx *store.Tx) error {
					if _, foreign := tenants(tx, table); foreign != 0 {
						t.Errorf("%s: %d rows of another tenant are seen", table, foreign)
					}
					for _, forgetful := range []string{`UPDATE %s SET tenant_id = tenant_id WHERE tenant_id <> 'acme'`, `DELETE FROM %s WHERE tenant_id <> 'acme'`} {
						if n, err := tx.Exec(t.Context(), fmt.Sprintf(forgetful, table)); n != 0 || err != nil {
							t.Errorf("%s: %d rows of another tenant were changed, %v", table, n, err)
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			// Nor can a row be moved out of its tenant.
			if err := b.db.UpdateFor(t.Context(), scope("acme"), func(tx *store.Tx) error {
				_, err := tx.Exec(t.Context(), fmt.Sprintf(`UPDATE %s SET tenant_id = 'globex'`, table))
				return err
			}); err == nil {
				t.Errorf("%s: rows were moved to another tenant", table)
			}
		}
		// The guard is not the only wall: the service's own statements name the tenant.
		_, err = r.Show(t.Context(), carol, mine.ID)
		if err == nil {
			t.Error("shown to another tenant")
		}
	})
}
