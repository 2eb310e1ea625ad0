package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

func (b *bench) rotate() (old uint32) {
	b.t.Helper()
	old = b.ring.Primary()
	next, err := b.ring.Add()
	if err == nil {
		err = b.ring.Promote(next)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return old
}

func (r *replica) sealedBy() map[uint32]int {
	r.b.t.Helper()
	got, err := r.SealedBy(r.b.t.Context())
	if err != nil {
		r.b.t.Fatal(err)
	}
	return got
}

// Guarantee: CRE4 (C37)
func TestResealLetsTheOldKeyGo(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		open := r.begin(alice) // a verifier
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/revoke"}, Effect: sandbox.Effect{Kind: "status", Status: 503}}}})
		cut := r.connect(bob, "bob")
		if _, err := r.Disconnect(t.Context(), bob, cut.ID, ""); err != nil { // two in the outbox
			t.Fatal(err)
		}
		b.behave(sandbox.Behaviour{})
		old := b.rotate()
		if diff := cmp.Diff(map[uint32]int{old: 4}, r.sealedBy()); diff != "" {
			t.Fatalf("sealed before (-want +got):\n%s", diff)
		}
		if n, err := r.Reseal(t.Context()); err != nil || n != 4 {
			t.Errorf("reseal = %d, %v; want 4", n, err)
		}
		if n, err := r.Reseal(t.Context()); err != nil || n != 0 {
			t.Errorf("second reseal = %d, %v; want 0", n, err)
		}
		if diff := cmp.Diff(map[uint32]int{b.ring.Primary(): 4}, r.sealedBy()); diff != "" {
			t.Errorf("sealed after (-want +got):\n%s", diff)
		}
		inUse := func(id uint32) (int, error) {
			used, err := r.SealedBy(t.Context())
			return used[id], err
		}
		if err := b.ring.Disable(old); err != nil {
			t.Fatal(err)
		}
		if err := b.ring.DestroyUnused(old, inUse); err != nil {
			t.Fatal(err)
		}
		// Each of the four still does its work.
		fresh := b.replica()
		if status, err := fresh.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		if _, err := fresh.Finish(t.Context(), alice, browserKey, b.visit(open, "alice", true), fresh.identify); err != nil {
			t.Errorf("sign-in that was under way: %v", err)
		}
		b.exec(`UPDATE cred_revocations SET next_at = 0 WHERE state = 'pending'`)
		fresh.pumpAll()
		if v, err := fresh.Show(t.Context(), bob, cut.ID); err != nil || v.Revocation.RevokedAtProvider != "yes" {
			t.Errorf("revocation = %+v, %v", v.Revocation, err)
		}
	})
}

// Threat T18: a key that is still needed is not destroyed, and one that is
// missing is named.
func TestKeysThatAreNeeded(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		old := b.rotate()
		if err := b.ring.Disable(old); err != nil {
			t.Fatal(err)
		}
		err := b.ring.DestroyUnused(old, func(id uint32) (int, error) {
			used, err := r.SealedBy(t.Context())
			return used[id], err
		})
		if !errors.Is(err, keys.ErrInUse) {
			t.Errorf("destroy = %v, want ErrInUse", err)
		}
		if missing, err := r.MissingKeys(t.Context()); err != nil || !cmp.Equal(missing, []uint32{old}) {
			t.Errorf("missing = %v, %v; want %d", missing, err, old)
		}
		if _, err := r.Reseal(t.Context()); !errors.Is(err, keys.ErrKeyUnavailable) {
			t.Errorf("reseal without the key: %v", err)
		}
		b.wantStatus(c, StatusActive, "")
		if err := b.ring.Enable(old); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Reseal(t.Context()); err != nil || n != 1 {
			t.Errorf("reseal with the key again = %d, %v", n, err)
		}
		if missing, err := r.MissingKeys(t.Context()); err != nil || missing != nil {
			t.Errorf("missing at the end = %v, %v", missing, err)
		}
	})
}

// One damaged row must not keep all others under a key that has to go.
func TestResealGoesOnAfterADamagedRow(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		var all []connector.Connection
		for i := range 3 {
			all = append(all, r.connect(connector.Caller{Tenant: "acme", Principal: connector.PrincipalID(fmt.Sprint("p", i))}, "alice"))
		}
		b.exec(`UPDATE cred_tokens SET sealed = (SELECT f.sealed FROM cred_tokens f WHERE f.connection_id = ?) WHERE connection_id = ?`,
			string(all[0].ID), string(all[1].ID))
		old := b.rotate()
		n, err := r.Reseal(t.Context())
		if n != 2 || !errors.Is(err, keys.ErrIntegrity) {
			t.Errorf("reseal = %d, %v; want 2 and ErrIntegrity", n, err)
		}
		if got := r.sealedBy(); got[old] != 1 {
			t.Errorf("sealed by = %v, want one left under the old key", got)
		}
		for _, i := range []int{0, 2} {
			if status, err := b.replica().get(all[i]); status != http.StatusOK {
				t.Errorf("connection %d: %d, %v", i, status, err)
			}
		}
	})
}

// C37: a value that was changed between reading and resealing stays the newer one.
func TestResealDoesNotPutAnOldTokenBack(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.rotate()
		column := &sealedColumns[0]
		rows, err := r.sealedPage(t.Context(), column, sealedRow{}, 10)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		b.expire(c)
		if status, err := r.get(c); status != http.StatusOK { // renewed meanwhile
			t.Fatalf("read = %d, %v", status, err)
		}
		if did, err := r.resealRow(t.Context(), column, &rows[0]); did || err != nil {
			t.Errorf("reseal of a row that moved on = %v, %v", did, err)
		}
		if status, err := b.replica().get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
	})
}

// C37: every column of bytes is either resealed or no secret.
func TestEverySealedColumnIsKnown(t *testing.T) {
	each(t, func(b *bench) {
		known := map[string]string{
			"cred_transactions.state_hash": "hash", "cred_transactions.browser_hash": "hash", "cred_audit.hash": "hash", "cred_audit_heads.hash": "hash",
		}
		for _, c := range sealedColumns {
			known[c.table+"."+c.column] = "sealed"
		}
		seen := 0
		for _, name := range b.byteColumns() {
			if known[name] == "" {
				b.t.Errorf("%s is neither resealed nor known as a hash", name)
			}
			seen++
		}
		if seen < 5 {
			b.t.Errorf("only %d columns found", seen)
		}
	})
}

func (b *bench) byteColumns() []string {
	b.t.Helper()
	query := `SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' AND m.name LIKE 'cred_%' AND p.type = 'BLOB'`
	if b.d.Engine == store.PostgreSQL {
		query = `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name LIKE 'cred_%' AND data_type = 'bytea'`
	}
	rows, err := b.db.Query(context.Background(), query)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			b.t.Fatal(err)
		}
		out = append(out, table+"."+column)
	}
	return out
}

// Guarantee: CRE4 (research 3f, threat T18): keys are turned over twice while two
// services work, and no call fails.
func TestRotationUnderLoad(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		path := filepath.Join(t.TempDir(), "keys.json")
		open := func() *keys.Ring {
			ring, err := keys.OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return ring
		}
		b.ring = open()
		services := []*replica{b.replica(func(c *Config) { c.Keys = open() }), b.replica(func(c *Config) { c.Keys = open() })}
		var all []connector.Connection
		for i := range 3 {
			all = append(all, services[0].connect(connector.Caller{Tenant: "acme", Principal: connector.PrincipalID(fmt.Sprint("p", i))}, "alice"))
		}
		b.exec(`UPDATE cred_tokens SET access_exp = 1000`)
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{ExpiresIn: []byte("1")}})

		ctx, cancel := context.WithCancel(context.Background())
		var work sync.WaitGroup
		stop := sync.OnceFunc(func() { cancel(); work.Wait() })
		defer stop()
		var calls atomic.Int64
		for _, r := range services {
			for i, c := range all {
				work.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						resp, err := r.transport.Do(context.WithoutCancel(ctx), c, connector.ClassRead, connector.Request{Path: "/api/v1/me"})
						if err != nil || resp.Status != http.StatusOK {
							t.Errorf("call %d of connection %d: %d, %v", n, i, resp.Status, err)
							return
						}
						calls.Add(1)
					}
				})
			}
		}
		for range 2 {
			before := b.refreshes()
			old := b.rotate()
			// A pair that was sealed just before the promotion is stored just
			// after: the key goes when it was out of use for a while.
			unused := 0
			for deadline := time.Now().Add(30 * time.Second); unused < 5 || b.refreshes() == before; {
				if _, err := services[0].Reseal(ctx); err != nil {
					t.Fatalf("reseal: %v", err)
				}
				unused++
				if services[1].sealedBy()[old] > 0 {
					unused = 0
				}
				if time.Now().After(deadline) {
					t.Fatalf("still sealed with the old key: %v", services[1].sealedBy())
				}
				pause(ctx, 50*time.Millisecond)
			}
			if err := b.ring.Disable(old); err != nil {
				t.Fatal(err)
			}
			if err := b.ring.DestroyUnused(old, func(id uint32) (int, error) { return services[0].sealedBy()[id], nil }); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if calls.Load() < 10 {
			t.Errorf("only %d calls were made", calls.Load())
		}
		for _, c := range all {
			b.wantStatus(c, StatusActive, "")
		}
		if !strings.Contains(b.ring.String(), "redacted") || len(b.ring.Keys()) != 1 {
			t.Errorf("%d keys at the end, want 1", len(b.ring.Keys()))
		}
	})
}

// A record that is resealed between being read and being opened still opens,
// although its old key is gone already.
func TestResealBetweenReadAndOpen(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		row, err := r.read(t.Context(), recordKey{c.Tenant, c.ID}, c.Principal)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.sealedPage(t.Context(), &sealedColumns[0], sealedRow{}, 1)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		old := b.rotate()
		if _, err := r.Reseal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.ring.Disable(old), b.ring.Destroy(old)); err != nil {
			t.Fatal(err)
		}
		if p, err := r.openRecord(t.Context(), row, rows[0].sealed); err != nil || p.access.IsZero() {
			t.Errorf("open = %v, %v", p.access, err)
		}
	})
}
