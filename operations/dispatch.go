package operations

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Dispatch takes an approved operation, or one of which provably nothing left,
// to dispatching and uses its approval up. When it returns nil the change is on
// disk and the claim holds the bytes that were approved.
//
// Every other state is an error, so that no caller sends by mistake:
// APPROVAL_REQUIRED before the approval and after an end without effect,
// APPROVAL_MISMATCH when the authorization has changed since, OUTCOME_UNKNOWN
// with the operation id when it may have been sent before. Beside the error for
// an applied operation, whose Effect is applied, the claim holds its record.
func (l *Ledger) Dispatch(ctx context.Context, tenant connector.TenantID, id connector.OperationID, authz int64) (connector.Claim, error) {
	var claim connector.Claim
	_, err := l.change(ctx, tenant, id, func(tx *store.Tx, r *row, now time.Time) error {
		if err := refuseDispatch(r, now); err != nil {
			if r.state == connector.StateApplied {
				rec, openErr := l.seal.record(r)
				if openErr != nil {
					return openErr
				}
				claim = connector.Claim{OperationRecord: rec}
			}
			return err
		}
		p, err := l.seal.plan(r)
		if err != nil {
			return err
		}
		mismatch := &connector.Error{Code: connector.CodeApprovalMismatch, Operation: r.id, Approval: r.approval.id}
		switch {
		case !r.approval.covers(r, p):
			mismatch.Message = "the approval does not cover what is stored"
			if err := r.end(ctx, tx, now, ApprovalWithdrawn, ledgerActor, mismatch.Message); err != nil {
				return err
			}
			return mismatch
		case authz > r.authz:
			// The number only grows: this approval can never be right again.
			mismatch.Message = "the connection's authorization has changed since the approval was asked for"
			if err := r.end(ctx, tx, now, ApprovalWithdrawn, ledgerActor, "authorization changed"); err != nil {
				return err
			}
			return mismatch
		case authz != r.authz:
			mismatch.Message = "the approval was asked for under a newer authorization of the connection"
			return mismatch
		}
		r.approval.usedAt = now
		if err := r.decide(ctx, tx, ApprovalUsed); err != nil {
			return err
		}
		r.fence++
		r.claim, r.leaseUntil, r.dispatchedAt = claimDispatch, now.Add(l.lease), now
		r.retryable, r.looks, r.nextLook = false, 0, time.Time{}
		if err := r.move(ctx, tx, now, connector.StateDispatching, ledgerActor, ""); err != nil {
			return err
		}
		// Opened before the commit: a row that can't be read is not dispatched.
		rec, err := l.seal.record(r)
		claim = connector.Claim{OperationRecord: rec, Fence: r.fence}
		return err
	})
	if err != nil {
		claim.Fence = 0
		if claim.State != connector.StateApplied {
			claim = connector.Claim{}
		}
		return claim, edge(err)
	}
	return claim, nil
}

// ledgerActor is who the history names for what no person did.
const ledgerActor = "drawbridge"

// refuseDispatch returns nil only for a state from which sending is right.
func refuseDispatch(r *row, now time.Time) error {
	e := &connector.Error{Code: connector.CodeApprovalRequired, Operation: r.id, Approval: r.approval.id}
	switch {
	case r.dispatchable():
		if r.approval.state == ApprovalApproved && !r.approval.revoked {
			return nil
		}
		e.Message = "the approval is " + string(r.approval.state)
	case r.state == connector.StateAwaitingApproval:
	case r.state == connector.StateApplied:
		e.Code, e.Effect, e.Approval = connector.CodeOutcomeUnknown, connector.DispositionApplied, ""
		e.Message = "another call has done this write; look it up"
	case !r.live():
		e.Message = "the operation has ended (" + string(r.state) + "); propose it again"
	default:
		return pendingOutcome(r, now)
	}
	return e
}

// pendingOutcome is the answer about a write that may have been sent.
func pendingOutcome(r *row, now time.Time) error {
	e := &connector.Error{Code: connector.CodeOutcomeUnknown, Effect: connector.DispositionUnknown, Operation: r.id}
	switch {
	case r.state == connector.StateUnresolved:
		e.Next, e.Message = connector.NextAskPerson, "no look-up could settle it; a person must decide"
	case r.state == connector.StateDispatching:
		e.Message, e.RetryAfter = "the operation is on its way", r.leaseUntil.Sub(now)
	case now.Before(r.leaseUntil):
		e.Message, e.RetryAfter = "the operation is being looked up", r.leaseUntil.Sub(now)
	default:
		e.RetryAfter = max(0, r.nextLook.Sub(now))
	}
	return e
}

// covers compares everything that an approval is bound to with what would be
// sent. The two were written together; a difference means that one of the rows
// was changed behind the ledger's back.
func (a *approval) covers(r *row, p plan) bool {
	return a.principal == r.Principal && a.connection == r.Connection && a.tool == r.Tool && a.version == r.version &&
		a.digest == r.digest && a.authz == r.authz && a.resourceVersion == storable(p.ResourceVersion, maxName)
}
