package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Guarded checks on PostgreSQL that every table of the database but the ones
// named in free is guarded by row, for its owner too: without a scope or with a
// stranger's nothing is seen or changed, with a tenant's only that tenant's
// rows, and none can be moved to another tenant. The tables come from the
// catalog, so a new one can't be forgotten. Each must hold rows of both tenants
// and of no third, or nothing would be shown. The tenant is in a column tenant
// or tenant_id; a table without one is held to its row counts. The database is
// one of [EachOwner]. SQLite has no guards, and nothing is checked there.
func Guarded(t *testing.T, db *store.DB, tenants [2]string, free ...string) {
	t.Helper()
	if db.Engine() == store.SQLite {
		return
	}
	ctx := t.Context()
	var passes bool
	if err := db.QueryRow(ctx, `SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user`).Scan(&passes); err != nil || passes {
		t.Fatalf("the role passes guards (%v, %v): nothing would be shown", passes, err)
	}
	type table struct {
		name, column, tenant string
		guarded              bool
	}
	var tables []table
	err := db.EachFor(ctx, store.Scope{}, func(row store.Scanner) error {
		var v table
		err := row.Scan(&v.name, &v.column, &v.tenant, &v.guarded)
		tables = append(tables, v)
		return err
	}, `SELECT c.relname, first.attname, coalesce(own.attname, ''), c.relrowsecurity AND c.relforcerowsecurity FROM pg_class c
		JOIN pg_attribute first ON first.attrelid = c.oid AND first.attnum = 1
		LEFT JOIN pg_attribute own ON own.attrelid = c.oid AND own.attname IN ('tenant', 'tenant_id')
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname NOT LIKE 'goose\_%' ORDER BY 1`)
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	unused := slices.Clone(free)
	for _, v := range tables {
		if slices.Contains(free, v.name) {
			unused = slices.DeleteFunc(unused, func(name string) bool { return name == v.name })
			continue
		}
		if !v.guarded {
			t.Errorf("table %s is not guarded for its owner", v.name)
			continue
		}
		all := "SELECT count(*) FROM " + v.name
		count := func(s store.Scope, query string, args ...any) (n int) {
			t.Helper()
			if err := db.QueryRowFor(ctx, s, query, args...).Scan(&n); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			return n
		}
		change := func(s store.Scope, format string) (n int64, err error) {
			err = db.UpdateFor(ctx, s, func(tx *store.Tx) error {
				n, err = tx.Exec(ctx, strings.ReplaceAll(fmt.Sprintf(format, v.name), "FIRST", v.column))
				return err
			})
			return n, err
		}
		for _, s := range []store.Scope{{}, store.Tenant(""), store.Tenant("*"), store.Tenant("a stranger")} {
			if n := count(s, all); n != 0 {
				t.Errorf("%s: %d rows are seen within %+v", v.name, n, s)
			}
			for _, forgetful := range []string{"UPDATE %s SET FIRST = FIRST", "DELETE FROM %s"} {
				if n, err := change(s, forgetful); n != 0 || err != nil {
					t.Errorf("%s within %+v: %s: %d rows, %v", v.name, s, forgetful, n, err)
				}
			}
		}
		rest := count(store.AllTenants(), all)
		for i, tenant := range tenants {
			s := store.Tenant(tenant)
			own := count(s, all)
			rest -= own
			if own == 0 {
				t.Errorf("%s has no row of %s: nothing would be shown", v.name, tenant)
			}
			if n, err := change(s, "UPDATE %s SET FIRST = FIRST"); n != int64(own) || err != nil {
				t.Errorf("%s: %d rows were changed, %v, where %s has %d", v.name, n, err, tenant, own)
			}
			if v.tenant == "" {
				continue
			}
			if n := count(s, all+" WHERE "+v.tenant+" <> ?", tenant); n != 0 {
				t.Errorf("%s: %d rows of others are seen by %s", v.name, n, tenant)
			}
			if _, err := change(s, "UPDATE %s SET "+v.tenant+" = '"+tenants[1-i]+"'"); err == nil || !strings.Contains(err.Error(), "row-level security") {
				t.Errorf("%s: a row of %s was not kept from moving: %v", v.name, tenant, err)
			}
		}
		if rest != 0 {
			t.Errorf("%s: %d rows are nobody's", v.name, rest)
		}
	}
	if len(unused) > 0 {
		t.Errorf("no tables: %v", unused)
	}
}
