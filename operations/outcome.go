package operations

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// An outcome is worth more than the patience of who asked for it: Finish goes
// on for this long after its caller has gone.
const finishPatience = 20 * time.Second

// Finish records what a claim came to. A claim that was fenced off, or has
// finished before, changes nothing and gets CONFLICT, except that the same
// outcome may be reported again: for an applied operation it replaces the
// receipt, for others it has no effect. A lease that ran out does not matter as
// long as nobody took the operation over.
//
// StateUnknown schedules the next look, and becomes unresolved when looks have
// gone on for longer than Config.GiveUp. An absence that a look-up reports
// before the provider's settle time is over is recorded as unknown. The record
// that is returned says what was written. A cancelled context does not stop it.
func (l *Ledger) Finish(ctx context.Context, c connector.Claim, o connector.Outcome) (connector.OperationRecord, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishPatience)
	defer cancel()
	receipt, err := l.seal.put(c.Tenant, c.ID, "receipt", o.Receipt)
	if err != nil {
		return connector.OperationRecord{}, edge(err)
	}
	output, err := l.seal.put(c.Tenant, c.ID, "output", o.Output)
	if err != nil {
		return connector.OperationRecord{}, edge(err)
	}
	var audited bool
	r, err := l.change(ctx, c.Tenant, c.ID, func(tx *store.Tx, r *row, now time.Time) (err error) {
		audited = false
		if c.Fence == 0 || c.Fence != r.fence {
			return fencedOff(r)
		}
		if r.claim == claimNone {
			switch {
			case o.State != r.state:
				return fencedOff(r)
			case o.State == connector.StateApplied:
				r.receipt, r.output = receipt, output
				return r.move(ctx, tx, now, connector.StateApplied, ledgerActor, "a stronger receipt")
			}
			return nil
		}
		if audited, err = l.account(ctx, tx, o.Audit); err != nil {
			return err
		}
		look := r.claim == claimLook
		r.claim, r.leaseUntil, r.nextLook = claimNone, time.Time{}, time.Time{}
		switch o.State {
		case connector.StateApplied:
			r.receipt, r.output = receipt, output
		case connector.StateRejected:
			if settled := r.dispatchedAt.Add(r.settle); look && now.Before(settled) {
				r.nextLook = settled
				return r.move(ctx, tx, now, connector.StateUnknown, ledgerActor, "absent, but the settle time is not over")
			}
		case connector.StateNotSent:
			if look {
				return connector.Fail(connector.CodeInternal, "a look-up can't prove that nothing was sent")
			}
			if o.Retryable {
				return l.giveBack(ctx, tx, r, now, o.Reason)
			}
		case connector.StateUnknown:
			return l.lookLater(ctx, tx, r, now, o)
		case connector.StateUnresolved:
		default:
			return connector.Fail(connector.CodeInternal, "%q is not an outcome", o.State)
		}
		return r.move(ctx, tx, now, o.State, ledgerActor, o.Reason)
	})
	if err != nil {
		return connector.OperationRecord{}, edge(err)
	}
	rec, err := l.seal.record(&r)
	rec.Audited = audited
	return rec, edge(err)
}

func fencedOff(r *row) error {
	return &connector.Error{Code: connector.CodeConflict, Operation: r.id, Message: "another claim has taken this operation over"}
}

// giveBack makes the approval usable again, because nothing of the dispatch
// left: unless it ran out meanwhile, or its connection was cut.
func (l *Ledger) giveBack(ctx context.Context, tx *store.Tx, r *row, now time.Time, reason string) error {
	a := &r.approval
	if a.revoked || !now.Before(a.expiresAt) {
		return r.move(ctx, tx, now, connector.StateNotSent, ledgerActor, reason)
	}
	a.usedAt = time.Time{}
	if err := r.decide(ctx, tx, ApprovalApproved); err != nil {
		return err
	}
	r.retryable = true
	return r.move(ctx, tx, now, connector.StateNotSent, ledgerActor, reason)
}

// lookLater schedules the next look of an operation that stays unknown.
func (l *Ledger) lookLater(ctx context.Context, tx *store.Tx, r *row, now time.Time, o connector.Outcome) error {
	deadline := r.dispatchedAt.Add(l.giveUp)
	if r.looks > 0 && !now.Before(deadline) {
		return r.move(ctx, tx, now, connector.StateUnresolved, ledgerActor, joinReason("no look-up settled it in time", o.Reason))
	}
	r.nextLook = now.Add(o.Retry)
	if o.Retry <= 0 {
		r.nextLook = now.Add(lookDelay(r.looks))
		// Absence is believed from the settle time on, so a look then is worth
		// more than all before.
		if settled := r.dispatchedAt.Add(r.settle); now.Before(settled) && r.nextLook.After(settled) {
			r.nextLook = settled
		}
	}
	if r.nextLook.After(deadline) && now.Before(deadline) {
		r.nextLook = deadline
	}
	return r.move(ctx, tx, now, connector.StateUnknown, ledgerActor, o.Reason)
}

func joinReason(a, b string) string {
	if b == "" {
		return a
	}
	return a + ": " + b
}

// A lost answer is most often settled by the first looks; after that the looks
// are there for outages and must not add to them.
var lookDelays = [...]time.Duration{
	2 * time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
}

// lookDelay is the wait after so many looks.
func lookDelay(looks int) time.Duration {
	return lookDelays[min(max(looks, 0), len(lookDelays)-1)]
}
