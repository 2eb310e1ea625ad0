package operations

import (
	"errors"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// refused checks that an operation can't be dispatched and that the refusal
// changed nothing that could be sent later.
func (b *bench) refused(rec connector.OperationRecord, authz int64, want connector.Code) *connector.Error {
	b.t.Helper()
	c, err := b.Dispatch(b.t.Context(), rec.Tenant, rec.ID, authz)
	e := fails(b.t, err, want)
	if c.Fence != 0 || len(c.Request.Body) != 0 {
		b.t.Errorf("a refused dispatch came with fence %d and %d bytes", c.Fence, len(c.Request.Body))
	}
	return e
}

// Guarantee: TIX4
func TestE1NothingIsDispatchedWithoutApproval(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		rec := b.propose(proposal(acme, "step-1", "printer on fire"))
		if e := b.refused(rec, 7, connector.CodeApprovalRequired); e.Approval != rec.Approval || e.Operation != rec.ID {
			t.Errorf("the refusal names approval %q of %q", e.Approval, e.Operation)
		}
		b.is(rec, connector.StateAwaitingApproval)
	})
}

// Guarantee: TIX4
func TestE3ApprovalIsUsedOnce(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for _, o := range []connector.Outcome{
			{State: connector.StateRejected}, {State: connector.StateNotSent},
		} {
			c := b.dispatched("step-1")
			b.finish(c, o)
			b.refused(c.OperationRecord, 7, connector.CodeApprovalRequired)
			_, err := b.Approve(t.Context(), acme, string(c.Approval), "bob")
			fails(t, err, connector.CodeConflict)
			b.refused(c.OperationRecord, 7, connector.CodeApprovalRequired)
		}
	})
}

// Guarantee: TIX4
func TestE3ExpiredApprovalSendsNothing(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		pending := b.propose(proposal(acme, "step-1", "a"))
		approved := b.propose(proposal(acme, "step-2", "b"))
		swept := b.propose(proposal(acme, "step-3", "c"))
		b.approve(approved)
		b.pass(29 * time.Minute)
		b.is(pending, connector.StateAwaitingApproval)
		b.pass(time.Minute)
		_, err := b.Approve(t.Context(), acme, string(pending.Approval), "bob")
		fails(t, err, connector.CodeConflict)
		b.refused(approved, 7, connector.CodeApprovalRequired)
		for _, rec := range []connector.OperationRecord{pending, approved} {
			if got := b.is(rec, connector.StateNotSent); got.Reason != "approval expired" {
				t.Errorf("reason = %q", got.Reason)
			}
			if c, err := b.Approval(t.Context(), acme, string(rec.Approval)); err != nil || c.State != ApprovalExpired {
				t.Errorf("approval is %s (%v), want expired", c.State, err)
			}
			if _, found, err := b.Find(t.Context(), rec.WriteIdentity); found || err != nil {
				t.Errorf("an expired operation stands for its identity (%v)", err)
			}
		}
		s, err := b.Sweep(t.Context())
		if want := (Swept{Expired: 1}); err != nil || s != want {
			t.Errorf("swept %+v (%v), want %+v", s, err, want)
		}
		b.is(swept, connector.StateNotSent)
	})
}

// Guarantee: TIX4
func TestE3ProposalDoesNotInheritAnExpiredApproval(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		old := b.propose(proposal(acme, "step-1", "a"))
		b.approve(old)
		b.pass(30 * time.Minute)
		again := b.propose(proposal(acme, "step-1", "a"))
		if again.ID == old.ID || again.State != connector.StateAwaitingApproval {
			t.Errorf("proposal got %s in state %s", again.ID, again.State)
		}
	})
}

// Guarantee: TIX4
func TestE3OtherPrincipalFindsNoApproval(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		rec := b.propose(proposal(acme, "step-1", "printer on fire"))
		b.approve(rec)
		w := rec.WriteIdentity
		w.Principal = "mallory"
		if _, found, err := b.Find(t.Context(), w); found || err != nil {
			t.Errorf("another principal found the operation (%v)", err)
		}
		p := proposal(acme, "step-1", "printer on fire")
		p.Principal = "mallory"
		b.refused(b.propose(p), 7, connector.CodeApprovalRequired)
	})
}

// Guarantee: TIX4
func TestE3OtherAuthorizationIsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		rec := b.propose(proposal(acme, "step-1", "printer on fire"))
		b.approve(rec)
		// A replica that has not seen the change yet must not kill anything.
		b.refused(rec, 6, connector.CodeApprovalMismatch)
		b.is(rec, connector.StateApproved)
		b.refused(rec, 8, connector.CodeApprovalMismatch)
		b.is(rec, connector.StateNotSent)
		// The old approval can't come back with the old number.
		b.refused(rec, 7, connector.CodeApprovalRequired)
		p := proposal(acme, "step-1", "printer on fire")
		p.AuthzVersion = 8
		again := b.propose(p)
		b.approve(again)
		b.dispatch(again)
	})
}

// Guarantee: TIX4
func TestE2ApprovalThatDoesNotCoverTheStoredBytes(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for _, tamper := range []string{
			"UPDATE operation SET digest = 'x'", "UPDATE operation SET version = '9.9.9'", "UPDATE operation SET principal = 'mallory'",
			"UPDATE operation SET connection = 'con_9'", "UPDATE operation SET tool = 'tickets.delete'",
			"UPDATE operation_approval SET resource_version = 'rev-4'", "UPDATE operation_approval SET authz_version = 8",
		} {
			p := proposal(acme, tamper, "printer on fire")
			rec := b.propose(p)
			b.approve(rec)
			column := "id"
			if tamper[:len("UPDATE operation_")] == "UPDATE operation_" {
				column = "operation"
			}
			err := b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
				_, err := tx.Exec(t.Context(), tamper+" WHERE tenant = ? AND "+column+" = ?", acme, rec.ID)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			b.refused(rec, 7, connector.CodeApprovalMismatch)
			b.is(rec, connector.StateNotSent)
		}
	})
}

func TestDeniedAndWithdrawnEndTheOperation(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		denied := b.propose(proposal(acme, "step-1", "a"))
		for range 2 { // twice is the same as once
			c, err := b.Deny(ctx, acme, string(denied.Approval), "bob", "wrong project")
			if err != nil || c.State != ApprovalDenied || c.Reason.Shown != "wrong project" || c.DecidedBy != "bob" {
				t.Errorf("card = %+v (%v)", c, err)
			}
		}
		withdrawn := b.propose(proposal(acme, "step-2", "b"))
		b.approve(withdrawn)
		b.approve(withdrawn) // twice is the same as once
		if _, err := b.Withdraw(ctx, acme, string(withdrawn.Approval), "alice", ""); err != nil {
			t.Fatal(err)
		}
		for _, rec := range []connector.OperationRecord{denied, withdrawn} {
			b.refused(rec, 7, connector.CodeApprovalRequired)
			// Whoever never had a claim has nothing to report, even the truth.
			_, err := b.Finish(ctx, connector.Claim{OperationRecord: rec}, connector.Outcome{State: connector.StateNotSent})
			fails(t, err, connector.CodeConflict)
			b.is(rec, connector.StateNotSent)
			_, err = b.Approve(ctx, acme, string(rec.Approval), "bob")
			fails(t, err, connector.CodeConflict)
		}
		if got := b.get(denied); got.Reason != "approval denied: wrong project" {
			t.Errorf("reason = %q", got.Reason)
		}
		used := b.dispatched("step-3")
		_, err := b.Withdraw(ctx, acme, string(used.Approval), "alice", "")
		fails(t, err, connector.CodeConflict)
		_, err = b.Deny(ctx, acme, string(used.Approval), "bob", "")
		fails(t, err, connector.CodeConflict)
		b.is(used.OperationRecord, connector.StateDispatching)
		_, err = b.Approve(ctx, acme, string(b.propose(proposal(acme, "step-4", "d")).Approval), " ")
		fails(t, err, connector.CodeInvalidInput)
	})
}

// Guarantee: TIX5
func TestE6NotSentKeepsItsApprovalAndKey(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		for fence := int64(1); fence < 4; fence++ {
			if c.Fence != fence {
				t.Errorf("fence = %d, want %d", c.Fence, fence)
			}
			b.finish(c, connector.Outcome{State: connector.StateNotSent, Reason: "UNAVAILABLE", Retryable: true})
			got, found, err := b.Find(t.Context(), c.WriteIdentity)
			if err != nil || !found || got.State != connector.StateNotSent || got.ID != c.ID {
				t.Fatalf("found %v %s (%v), want the same operation", found, got.State, err)
			}
			next := b.dispatch(got)
			if next.Request.OperationID != c.Request.OperationID {
				t.Errorf("the key changed from %s to %s", c.Request.OperationID, next.Request.OperationID)
			}
			c = next
		}
		b.finish(c, connector.Outcome{State: connector.StateNotSent, Retryable: true})
		b.pass(31 * time.Minute)
		b.refused(c.OperationRecord, 7, connector.CodeApprovalRequired)
		if _, found, _ := b.Find(t.Context(), c.WriteIdentity); found {
			t.Error("the identity is not free after the approval ran out")
		}
	})
}

func TestNotSentAfterTheApprovalRanOutIsOver(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		b.pass(30 * time.Minute)
		b.finish(c, connector.Outcome{State: connector.StateNotSent, Retryable: true})
		if card, err := b.Approval(t.Context(), acme, string(c.Approval)); err != nil || card.State != ApprovalUsed {
			t.Errorf("approval is %s (%v), want used", card.State, err)
		}
		b.refused(c.OperationRecord, 7, connector.CodeApprovalRequired)
		if _, found, _ := b.Find(t.Context(), c.WriteIdentity); found {
			t.Error("the operation still stands for its identity")
		}
	})
}

// Guarantee: CRE8
func TestKilledConnectionLosesItsApprovals(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		pending := b.propose(proposal(acme, "pending", "a"))
		approved := b.propose(proposal(acme, "approved", "b"))
		b.approve(approved)
		retryable := b.dispatched("retryable").OperationRecord
		b.finish(connector.Claim{OperationRecord: retryable, Fence: 1}, connector.Outcome{State: connector.StateNotSent, Retryable: true})
		sending := b.dispatched("sending")
		unknown := b.dispatched("unknown")
		b.finish(unknown, connector.Outcome{State: connector.StateUnknown})
		applied := b.dispatched("applied")
		b.finish(applied, connector.Outcome{State: connector.StateApplied})
		p := proposal(acme, "elsewhere", "c")
		p.Connection = "con_2"
		elsewhere := b.propose(p)

		// A transaction that is rolled back kills nothing.
		rollback := errors.New("rolled back")
		err := b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
			if n, err := b.KillConnection(ctx, tx, acme, "con_1", "disconnected"); err != nil || n != 3 {
				t.Errorf("ended %d operations (%v), want 3", n, err)
			}
			return rollback
		})
		if err != rollback {
			t.Fatal(err)
		}
		b.is(approved, connector.StateApproved)

		if n, err := b.KillConnection(ctx, nil, acme, "con_1", "disconnected"); err != nil || n != 3 {
			t.Fatalf("ended %d operations (%v), want 3", n, err)
		}
		for _, rec := range []connector.OperationRecord{pending, approved, retryable} {
			if got := b.is(rec, connector.StateNotSent); got.Reason != "approval withdrawn: disconnected" {
				t.Errorf("reason = %q", got.Reason)
			}
			b.refused(rec, 7, connector.CodeApprovalRequired)
		}
		b.is(sending.OperationRecord, connector.StateDispatching)
		b.is(unknown.OperationRecord, connector.StateUnknown)
		b.is(applied.OperationRecord, connector.StateApplied)
		b.is(elsewhere, connector.StateAwaitingApproval)

		// What was on its way may report, but not try again.
		b.finish(sending, connector.Outcome{State: connector.StateNotSent, Retryable: true})
		b.refused(sending.OperationRecord, 7, connector.CodeApprovalRequired)
		if _, found, _ := b.Find(ctx, sending.WriteIdentity); found {
			t.Error("a killed dispatch still stands for its identity")
		}
	})
}

// Guarantee: TIX4
func TestAProposalOfAnotherVersionGivesWayUnsent(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		upgrade := func(intent string) connector.Proposal {
			p := proposal(acme, intent, "printer on fire")
			p.Version = "2.0.0"
			return p
		}
		for name, until := range map[string]func(connector.OperationRecord){"pending": func(connector.OperationRecord) {}, "approved": b.approve} {
			old := b.propose(proposal(acme, name, "printer on fire"))
			until(old)
			fresh := b.propose(upgrade(name))
			if fresh.ID == old.ID || fresh.State != connector.StateAwaitingApproval || fresh.Version != "2.0.0" {
				t.Errorf("%s: the new version got %s in %s", name, fresh.ID, fresh.State)
			}
			b.is(old, connector.StateNotSent)
			_, err := b.Dispatch(t.Context(), acme, old.ID, old.AuthzVersion)
			fails(t, err, connector.CodeApprovalRequired)
			if card, err := b.Approval(t.Context(), acme, string(old.Approval)); err != nil || card.State != ApprovalWithdrawn {
				t.Errorf("%s: the old approval is %s, %v", name, card.State, err)
			}
		}
		// What has left stands, whoever asks.
		sent := b.dispatched("sent")
		if again := b.propose(upgrade("sent")); again.ID != sent.ID || again.State != connector.StateDispatching {
			t.Errorf("a write on its way became %s in %s", again.ID, again.State)
		}
		// Another payload is still a conflict, and withdraws nothing.
		standing := b.propose(proposal(acme, "payload", "one"))
		other := upgrade("payload")
		_, err := b.Propose(t.Context(), other)
		fails(t, err, connector.CodeConflict)
		b.is(standing, connector.StateAwaitingApproval)
	})
}
