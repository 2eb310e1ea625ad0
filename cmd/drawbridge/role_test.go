package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// TestServeWarnsOfARoleThatPassesRowSecurity compares with the role's own powers: the
// server of the tests may be anybody's.
func TestServeWarnsOfARoleThatPassesRowSecurity(t *testing.T) {
	check := func(t *testing.T, db *store.DB, want bool) {
		t.Helper()
		var log bytes.Buffer
		a := &app{logger: slog.New(slog.NewTextHandler(&log, nil))}
		if err := a.warnOfRole(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "BYPASSRLS"); got != want {
			t.Errorf("warned: %v, want %v; log: %s", got, want, log.String())
		}
	}
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) { check(t, d.Open(), false) })
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open()
		if d.Engine != store.PostgreSQL {
			check(t, db, false)
			return
		}
		var super string
		if err := db.QueryRow(t.Context(), `SELECT current_setting('is_superuser')`).Scan(&super); err != nil {
			t.Fatal(err)
		}
		if super != "on" {
			t.Skip("the server's user is no superuser")
		}
		check(t, db, true)
	})
}
