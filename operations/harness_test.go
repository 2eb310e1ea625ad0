package operations

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Each check of the model is dozens of durable transactions. For a long
	// run say -rapid.checks=1000.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// bench is a ledger on a database of its own.
type bench struct {
	t    *testing.T
	d    storetest.Database
	db   *store.DB
	ring *keys.Ring
	*Ledger
}

func newRing(t *testing.T) *keys.Ring {
	t.Helper()
	secret, err := keys.Generate()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func newBench(t *testing.T, d storetest.Database) *bench {
	t.Helper()
	b := &bench{t: t, d: d, db: d.Open(Migrations()), ring: newRing(t)}
	b.Ledger = b.replica()
	return b
}

// replica is another process on the same database, as far as a test can tell.
func (b *bench) replica() *Ledger {
	b.t.Helper()
	l, err := New(Config{DB: b.db, Keys: b.ring, Audit: true})
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func each(t *testing.T, fn func(t *testing.T, b *bench)) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		t.Parallel()
		fn(t, newBench(t, d))
	})
}

const (
	acme  connector.TenantID = "acme"
	other connector.TenantID = "other"
)

var proposals atomic.Int64

// proposal makes the n-th proposal of the test binary; the same intent with
// the same title is the same write.
func proposal(tenant connector.TenantID, intent, title string) connector.Proposal {
	id := connector.OperationID(fmt.Sprintf("op_%08dzzzz", proposals.Add(1)))
	body, _ := json.Marshal(map[string]string{"title": title})
	return connector.Proposal{
		WriteIdentity: connector.WriteIdentity{Tenant: tenant, Principal: "alice", Connection: "con_1", Tool: "tickets.create", Intent: intent},
		ID:            id, Connector: "tickets", Version: "1.2.3", Provider: "sandbox",
		Account:      connector.Account{Issuer: "https://id.example", Subject: "4711", Login: "alice@acme", Organisation: "Acme"},
		AuthzVersion: 7, Arguments: body, ArgsDigest: "args-" + title, Digest: "payload-" + string(id) + title,
		Request: connector.Request{
			Method: "POST", Path: "/projects/orders/tickets", Query: url.Values{"notify": {"no"}}, ContentType: "application/json",
			Body: body, DedupeHeader: "Idempotency-Key", OperationID: id, ResourceVersion: "rev-3", Profile: "acme-desk",
			Summary: "Create a ticket in Orders at Acme as alice@acme", Notes: []string{"watchers are notified"},
		},
		Settle: 10 * time.Second, CallID: "call_1", Run: "run_1",
	}
}

func (b *bench) propose(p connector.Proposal) connector.OperationRecord {
	b.t.Helper()
	rec, err := b.Propose(b.t.Context(), p)
	if err != nil {
		b.t.Fatalf("propose: %v", err)
	}
	return rec
}

func (b *bench) approve(rec connector.OperationRecord) {
	b.t.Helper()
	if _, err := b.Approve(b.t.Context(), rec.Tenant, string(rec.Approval), "bob"); err != nil {
		b.t.Fatalf("approve: %v", err)
	}
}

func (b *bench) dispatch(rec connector.OperationRecord) connector.Claim {
	b.t.Helper()
	c, err := b.Dispatch(b.t.Context(), rec.Tenant, rec.ID, rec.AuthzVersion)
	if err != nil {
		b.t.Fatalf("dispatch: %v", err)
	}
	return c
}

// dispatched is an operation that is on its way.
func (b *bench) dispatched(intent string) connector.Claim {
	b.t.Helper()
	rec := b.propose(proposal(acme, intent, "printer on fire"))
	b.approve(rec)
	return b.dispatch(rec)
}

func (b *bench) finish(c connector.Claim, o connector.Outcome) connector.OperationRecord {
	b.t.Helper()
	rec, err := b.Finish(b.t.Context(), c, o)
	if err != nil {
		b.t.Fatalf("finish as %s: %v", o.State, err)
	}
	return rec
}

func (b *bench) get(rec connector.OperationRecord) connector.OperationRecord {
	b.t.Helper()
	got, err := b.Get(b.t.Context(), rec.Tenant, rec.ID)
	if err != nil {
		b.t.Fatalf("get: %v", err)
	}
	return got
}

func (b *bench) is(rec connector.OperationRecord, want connector.OperationState) connector.OperationRecord {
	b.t.Helper()
	got := b.get(rec)
	if got.State != want {
		b.t.Fatalf("operation is %s (%s), want %s", got.State, got.Reason, want)
	}
	return got
}

// pass lets time go by for one tenant, on the database's own clock: everything
// that was written before is older afterwards.
func pass(ctx context.Context, db *store.DB, tenant connector.TenantID, d time.Duration) error {
	return db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		for _, column := range []string{"created_at", "dispatched_at", "lease_until", "next_look"} {
			if _, err := tx.Exec(ctx, `UPDATE operation SET `+column+` = `+column+` - ? WHERE tenant = ? AND `+column+` > 0`, d.Milliseconds(), tenant); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `UPDATE operation_approval SET created_at = created_at - ?1, expires_at = expires_at - ?1 WHERE tenant = ?2`, d.Milliseconds(), tenant)
		return err
	})
}

func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	if err := pass(b.t.Context(), b.db, acme, d); err != nil {
		b.t.Fatal(err)
	}
}

// fails checks an error's code and returns it.
func fails(t *testing.T, err error, want connector.Code) *connector.Error {
	t.Helper()
	if got := connector.CodeOf(err); got != want {
		t.Fatalf("error is %v, want %v", err, want)
	}
	return connector.AsError(err)
}
