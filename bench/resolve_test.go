package bench

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

// vault is a credential service over one database with many connections.
type vault struct {
	db      *store.DB
	service *credentials.Service
	rows    int
	first   connector.Connection
}

const vaultFew = 1000

// vaultMany is DRAWBRIDGE_BENCH_ROWS, 100 thousand without it.
func vaultMany(b *testing.B) int {
	text := os.Getenv("DRAWBRIDGE_BENCH_ROWS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= vaultFew {
		b.Fatalf("DRAWBRIDGE_BENCH_ROWS must be a number above %d", vaultFew)
	}
	return n
}

// vaultEngines are SQLite and, where there is a server, PostgreSQL as an
// ordinary role, which its guards by row hold.
func vaultEngines(b *testing.B, run func(b *testing.B, address func(b *testing.B) string)) {
	b.Run("sqlite", func(b *testing.B) {
		run(b, func(b *testing.B) string { return "sqlite:" + filepath.Join(b.TempDir(), "vault.db") })
	})
	server := os.Getenv("DRAWBRIDGE_TEST_POSTGRES")
	if server == "" {
		return
	}
	b.Run("postgresql", func(b *testing.B) {
		run(b, func(b *testing.B) string { return ordinaryRole(b, server) })
	})
}

func ordinaryRole(b *testing.B, server string) string {
	admin, err := store.Open(b.Context(), store.Config{URL: server})
	must(b, err)
	exec := func(text string) {
		must(b, admin.Update(context.Background(), func(tx *store.Tx) error {
			_, err := tx.Exec(context.Background(), text)
			return err
		}))
	}
	role, password := "bench_"+strings.ToLower(rand.Text()), rand.Text()
	exec("CREATE ROLE " + role + " LOGIN PASSWORD '" + password + "'")
	exec("CREATE SCHEMA " + role + " AUTHORIZATION " + role)
	b.Cleanup(func() {
		exec("DROP SCHEMA " + role + " CASCADE")
		exec("DROP ROLE " + role)
		admin.Close()
	})
	u, err := url.Parse(server)
	must(b, err)
	u.User = url.UserPassword(role, password)
	q := u.Query()
	q.Set("search_path", role)
	u.RawQuery = q.Encode()
	return u.String()
}

func openVault(b *testing.B, address string, rows int) *vault {
	b.Helper()
	db, err := store.Open(b.Context(), store.Config{URL: address, Migrations: []store.Migrations{credentials.Migrations(), vaultFloor}})
	must(b, err)
	b.Cleanup(func() { db.Close() })
	text, err := keys.Generate()
	must(b, err)
	ring, err := keys.Parse(text)
	must(b, err)
	v := &vault{db: db, rows: rows}
	v.service, err = credentials.New(credentials.Config{DB: db, Keys: ring,
		Exchanger: credentials.ExchangerFunc(func(context.Context, string, transport.Exchange) (connector.Response, error) {
			return connector.Response{}, connector.Fail(connector.CodeInternal, "nothing is to be sent")
		}),
		Providers: []credentials.Provider{{ID: "tickets", Profile: "tickets", Kind: credentials.KindStatic, Issuer: "bench",
			Scopes: []string{"tickets:read", "tickets:write", "profile:read"}}}})
	must(b, err)
	b.Cleanup(v.service.Close)
	v.first, err = v.service.Setup(b.Context(), v.caller(0), credentials.SetupRequest{Provider: "tickets", Key: credentials.NewSecret(rand.Text())},
		func(context.Context, connector.Connection) (connector.Identity, error) {
			return connector.Identity{Account: connector.Account{Subject: "acct-0", Login: "zero", Organisation: "acme"},
				Resources: []connector.Resource{{ID: "orders"}, {ID: "web"}}}, nil
		})
	must(b, err)
	// The others are copies of the first one, each with a principal of its own.
	const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) `
	must(b, db.UpdateFor(b.Context(), store.AllTenants(), func(tx *store.Tx) error {
		for _, text := range []string{
			numbers + `INSERT INTO cred_connections (tenant_id, id, principal_id, provider_id, profile, client_id, issuer, ext_issuer, ext_subject,
				ext_login, ext_organisation, status, reason, authz_version, requested_scopes, granted_scopes, wanted, resources, notes, created_at, updated_at)
				SELECT tenant_id, 'con_' || i, 'p' || i, provider_id, profile, client_id, issuer, ext_issuer, 'acct-' || i, ext_login, ext_organisation,
				status, reason, authz_version, requested_scopes, granted_scopes, wanted, resources, notes, created_at, updated_at
				FROM cred_connections, n`,
			numbers + `INSERT INTO cred_tokens (tenant_id, connection_id, version, sealed, has_refresh, answered_scopes, issued_at, access_exp, forced,
				lease_tok, lease_owner, lease_exp, phase, next_attempt_at, fail_count, unknown_count, last_code)
				SELECT tenant_id, 'con_' || i, version, sealed, has_refresh, answered_scopes, issued_at, access_exp, forced, lease_tok, lease_owner,
				lease_exp, phase, next_attempt_at, fail_count, unknown_count, last_code FROM cred_tokens, n`,
			`INSERT INTO floor SELECT tenant_id, id, principal_id, provider_id, profile, ext_issuer, ext_subject, ext_login, ext_organisation,
				status, reason, requested_scopes, granted_scopes, resources, notes, authz_version, created_at, updated_at FROM cred_connections WHERE ? > 0`,
		} {
			if _, err := tx.Exec(b.Context(), text, rows-1); err != nil {
				return err
			}
		}
		return nil
	}))
	if db.Engine() == store.PostgreSQL {
		must(b, db.Update(b.Context(), func(tx *store.Tx) error {
			_, err := tx.Exec(b.Context(), `ANALYZE cred_connections, cred_tokens, floor`)
			return err
		}))
	}
	return v
}

func (v *vault) caller(i int) connector.Caller {
	return connector.Caller{Tenant: "acme", Principal: connector.PrincipalID("p" + strconv.Itoa(i))}
}

// resolve is ours, for a principal who is another one each time.
func (v *vault) resolve(b *testing.B) {
	caller := v.caller(1 + mathrand.IntN(v.rows-1))
	c, err := v.service.Resolve(b.Context(), caller, "tickets", []string{"tickets:read"})
	must(b, err)
	if c.Principal != caller.Principal {
		b.Fatalf("resolved %+v", c)
	}
}

// vaultFloor has the same rows without indexes and guards.
var vaultFloor = store.Migrations{Service: "floor", FS: fstest.MapFS{"00001_floor.sql": {Data: []byte(`-- +goose Up
CREATE TABLE floor (tenant_id TEXT NOT NULL, id TEXT NOT NULL, principal_id TEXT NOT NULL, provider_id TEXT NOT NULL, profile TEXT NOT NULL,
	ext_issuer TEXT NOT NULL, ext_subject TEXT NOT NULL, ext_login TEXT NOT NULL, ext_organisation TEXT NOT NULL, status TEXT NOT NULL,
	reason TEXT NOT NULL, requested_scopes TEXT NOT NULL, granted_scopes TEXT NOT NULL, resources TEXT NOT NULL, notes TEXT NOT NULL,
	authz_version BIGINT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, PRIMARY KEY (tenant_id, id));
`)}}}

// selectOne is the floor: one row by its primary key, with no question asked.
func (v *vault) selectOne(b *testing.B) {
	id := "con_" + strconv.Itoa(1+mathrand.IntN(v.rows-1))
	var text [16]string
	var numbers [3]int64
	must(b, v.db.QueryRow(b.Context(), `SELECT id, principal_id, provider_id, profile, ext_issuer, ext_subject, ext_login, ext_organisation,
		status, reason, requested_scopes, granted_scopes, resources, notes, authz_version, created_at, updated_at
		FROM floor WHERE tenant_id = ? AND id = ?`, "acme", id).Scan(&text[0], &text[1], &text[2], &text[3], &text[4], &text[5], &text[6],
		&text[7], &text[8], &text[9], &text[10], &text[11], &text[12], &text[13], &numbers[0], &numbers[1], &numbers[2]))
	if text[0] != id {
		b.Fatal(sql.ErrNoRows)
	}
}

// BenchmarkResolve is finding a caller's connection and its rights among many,
// against one SELECT by primary key on copies of the same rows. On PostgreSQL
// ours also pays for the guard by row, which travels along in the same round trip.
func BenchmarkResolve(b *testing.B) {
	vaultEngines(b, func(b *testing.B, address func(b *testing.B) string) {
		for _, rows := range []int{vaultFew, vaultMany(b)} {
			b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
				v := openVault(b, address(b), rows)
				pair(b, func() { v.selectOne(b) }, func() { v.resolve(b) })
			})
		}
	})
}

// BenchmarkResolveGrowth has many connections as ours and few as the floor.
func BenchmarkResolveGrowth(b *testing.B) {
	vaultEngines(b, func(b *testing.B, address func(b *testing.B) string) {
		few, many := openVault(b, address(b), vaultFew), openVault(b, address(b), vaultMany(b))
		pair(b, func() { few.resolve(b) }, func() { many.resolve(b) })
	})
}
