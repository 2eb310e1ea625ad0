package operations

import (
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// What was not sent when the copy was made may have been sent since.
//
// Guarantees: TIX5, OPS4
func TestRestoredSendsNothingThatMayHaveBeenSent(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		proposed := b.propose(proposal(acme, "proposed", "p"))
		foreign := b.propose(proposal(other, "of another tenant", "p"))
		approved := b.propose(proposal(acme, "approved", "a"))
		b.approve(approved)
		sending := b.dispatched("sending")
		unsent := b.finish(b.dispatched("the network was down"), connector.Outcome{State: connector.StateNotSent, Retryable: true, Reason: "refused"})
		denied := b.propose(proposal(acme, "denied", "d"))
		if _, err := b.Deny(t.Context(), acme, string(denied.Approval), "bob", "no"); err != nil {
			t.Fatal(err)
		}
		b.pass(40 * time.Minute) // the approvals ran out; they may have been used before

		n, err := b.Restored(t.Context())
		if err != nil || n != 5 {
			t.Fatalf("%d operations, %v", n, err)
		}
		for _, rec := range []connector.OperationRecord{proposed, foreign, approved, sending.OperationRecord, unsent} {
			b.is(rec, connector.StateUnknown)
			_, err := b.Approve(t.Context(), rec.Tenant, string(rec.Approval), "bob")
			if err == nil {
				t.Errorf("%s: its approval can still be given", rec.Intent)
			}
			_, err = b.Dispatch(t.Context(), rec.Tenant, rec.ID, rec.AuthzVersion)
			fails(t, err, connector.CodeOutcomeUnknown)
			// The same proposal again is the same operation, not another write.
			if found, ok, err := b.Find(t.Context(), rec.WriteIdentity); err != nil || !ok || found.ID != rec.ID {
				t.Errorf("%s: %v %v %v", rec.Intent, found.ID, ok, err)
			}
			claim, err := b.Look(t.Context(), rec.Tenant, rec.ID)
			if err != nil || claim.DispatchedAt.IsZero() {
				t.Errorf("%s: looked up since %v, %v", rec.Intent, claim.DispatchedAt, err)
			}
		}
		b.is(denied, connector.StateNotSent)
		if n, err := b.Restored(t.Context()); err != nil || n != 0 {
			t.Errorf("a second time: %d operations, %v", n, err)
		}
	})
}
