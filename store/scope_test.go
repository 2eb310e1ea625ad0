package store_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

var notes = store.Migrations{Service: "notes", FS: fstest.MapFS{
	"00001_notes.sql": {Data: []byte("-- +goose Up\nCREATE TABLE notes (tenant_id TEXT NOT NULL, id TEXT NOT NULL, n BIGINT NOT NULL, raw BYTES, PRIMARY KEY (tenant_id, id));\n")},
	"00002_guard.postgresql.sql": {Data: []byte(`-- +goose Up
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE notes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON notes USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant_id));
`)},
	"00003_after.sql": {Data: []byte("-- +goose Up\nCREATE TABLE after_guard (id BIGINT PRIMARY KEY);\n")},
}}

func notesOf(db *store.DB, s store.Scope) ([]string, error) {
	var out []string
	err := db.EachFor(context.Background(), s, func(row store.Scanner) error {
		var tenant, id string
		err := row.Scan(&tenant, &id)
		out = append(out, tenant+"/"+id)
		return err
	}, "SELECT tenant_id, id FROM notes ORDER BY tenant_id, id")
	return out, err
}

// Guarantee: CRE4 (threat T12): what a statement forgets to say, the database
// knows; also for the owner of the tables, and for every way to run one.
func TestScopeGuardsRows(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(notes)
		ctx := t.Context()
		guarded := d.Engine == store.PostgreSQL
		for _, tenant := range []string{"a", "b", "*"} { // the last is a name like any other
			if err := db.UpdateFor(ctx, store.Tenant(tenant), func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO notes (tenant_id, id, n, raw) VALUES (?, 'x', 1, ?)", tenant, []byte{0, 1})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		all := []string{"*/x", "a/x", "b/x"}
		for name, test := range map[string]struct {
			scope store.Scope
			want  []string
		}{
			"a": {store.Tenant("a"), all[1:2]}, "b": {store.Tenant("b"), all[2:]}, "a star": {store.Tenant("*"), all[:1]},
			"nobody": {store.Tenant("c"), nil}, "the empty one": {store.Tenant(""), nil},
			"none": {store.Scope{}, nil}, "all": {store.AllTenants(), all},
		} {
			want := test.want
			if !guarded {
				want = all
			}
			got, err := notesOf(db, test.scope)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("scope %s (-want +got):\n%s", name, diff)
			}
			var inView, changed int64
			if err := db.ViewFor(ctx, test.scope, func(tx *store.Tx) error {
				return tx.QueryRow(ctx, "SELECT count(*) FROM notes").Scan(&inView)
			}); err != nil {
				t.Fatal(err)
			}
			if err := db.UpdateFor(ctx, test.scope, func(tx *store.Tx) (err error) {
				changed, err = tx.Exec(ctx, "UPDATE notes SET n = n + 1")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if int(inView) != len(want) || int(changed) != len(want) {
				t.Errorf("scope %s: %d seen, %d changed, want %d", name, inView, changed, len(want))
			}
		}
		if guarded {
			// Without a scope, before and after one was used on the connection.
			if n := count(t, db, "SELECT count(*) FROM notes"); n != 0 {
				t.Errorf("%d rows are seen without a scope", n)
			}
			err := db.UpdateFor(ctx, store.Tenant("a"), func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO notes (tenant_id, id, n) VALUES ('b', 'y', 1)")
				return err
			})
			if err == nil {
				t.Error("a row was written into another tenant")
			}
		}
		var n int64
		var raw []byte
		if err := db.QueryRowFor(ctx, store.Tenant("a"), "SELECT n, raw FROM notes WHERE tenant_id = ? AND id = ?", "a", "x").Scan(&n, &raw); err != nil || n < 2 || len(raw) != 2 {
			t.Errorf("row = %d, %v, %v", n, raw, err)
		}
		if err := db.QueryRowFor(ctx, store.Tenant("a"), "SELECT n FROM notes WHERE tenant_id = ?", "c").Scan(&n); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no row = %v", err)
		}
		if err := db.QueryRowFor(ctx, store.Tenant("a"), "SELECT nothing FROM notes").Scan(&n); err == nil {
			t.Error("a wrong statement succeeds")
		}
		stop := errors.New("stop")
		calls := 0
		if err := db.EachFor(ctx, store.AllTenants(), func(store.Scanner) error { calls++; return stop }, "SELECT id FROM notes"); !errors.Is(err, stop) || calls != 1 {
			t.Errorf("ended by its function: %v after %d calls", err, calls)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := notesOf(db, store.AllTenants()); err != nil {
			t.Error(err)
		}
		if err := db.QueryRowFor(gone, store.AllTenants(), "SELECT n FROM notes").Scan(&n); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// Two tenants on few connections: no scope stays behind for the next one.
func TestScopeEndsWithItsStatement(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(notes)
		ctx := t.Context()
		var all sync.WaitGroup
		for _, tenant := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			all.Go(func() {
				for i := range 20 {
					if err := db.UpdateFor(ctx, store.Tenant(tenant), func(tx *store.Tx) error {
						_, err := tx.Exec(ctx, "INSERT INTO notes (tenant_id, id, n) VALUES (?, ?, 1)", tenant, string(rune('A'+i)))
						return err
					}); err != nil {
						t.Error(err)
					}
					got, err := notesOf(db, store.Tenant(tenant))
					if d.Engine == store.PostgreSQL && (err != nil || len(got) != i+1) {
						t.Errorf("%s sees %d rows, %v, want its %d", tenant, len(got), err, i+1)
					}
					var n int
					if err := db.QueryRow(ctx, "SELECT count(*) FROM notes").Scan(&n); d.Engine == store.PostgreSQL && (err != nil || n != 0) {
						t.Errorf("%d rows without a scope, %v", n, err)
					}
				}
			})
		}
		all.Wait()
	})
}

// A scope travels with what begins the transaction.
func TestScopeCostsNoRoundTrip(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		if d.Engine != store.PostgreSQL {
			return
		}
		d.Open(notes)
		between, dsn := newCutter(t, d.URL)
		db, err := store.Open(t.Context(), store.Config{URL: dsn, MaxConns: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		ctx := t.Context()
		read := func(tx *store.Tx) error {
			var n int
			return tx.QueryRow(ctx, "SELECT count(*) FROM notes").Scan(&n)
		}
		requests := func(do func() error) int64 {
			least := int64(1 << 60) // an idle connection is tried out first, which is none of the transaction's
			for range 5 {
				before := between.requests.Load()
				if err := do(); err != nil {
					t.Fatal(err)
				}
				least = min(least, between.requests.Load()-before)
			}
			return least
		}
		without := []int64{requests(func() error { return db.Update(ctx, read) }), requests(func() error { return db.View(ctx, read) })}
		within := []int64{requests(func() error { return db.UpdateFor(ctx, store.Tenant("a"), read) }), requests(func() error { return db.ViewFor(ctx, store.Tenant("a"), read) })}
		if diff := cmp.Diff(without, within); diff != "" || without[0] != 3 {
			t.Errorf("requests of a write and a read (-without a scope +within one):\n%s", diff)
		}
	})
}

func TestScopeOfAnyName(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(notes)
		ctx := t.Context()
		for _, tenant := range []string{"it's", `a'; DROP TABLE notes; --`, `back\slash`, "Zürich ☃", " "} {
			if err := db.UpdateFor(ctx, store.Tenant(tenant), func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO notes (tenant_id, id, n) VALUES (?, 'x', 1)", tenant)
				return err
			}); err != nil {
				t.Errorf("%q: %v", tenant, err)
			}
			if got, err := notesOf(db, store.Tenant(tenant)); d.Engine == store.PostgreSQL && (err != nil || len(got) != 1 || got[0] != tenant+"/x") {
				t.Errorf("%q sees %q, %v", tenant, got, err)
			}
		}
		if d.Engine != store.PostgreSQL {
			return
		}
		for _, name := range []string{"a\x00b", "a\xff"} {
			ran := false
			if err := db.UpdateFor(ctx, store.Tenant(name), func(*store.Tx) error { ran = true; return nil }); err == nil || ran {
				t.Errorf("a scope that is no text was entered: %v", err)
			}
			if got, err := notesOf(db, store.AllTenants()); err != nil || len(got) != 5 {
				t.Errorf("afterwards %d rows are seen, %v", len(got), err)
			}
		}
	})
}
