package operations

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Restored takes every operation that had not been sent when the database was
// copied to unknown, and returns how many: between the copy and now, the ledger
// that went on without this one may have sent them. They are looked up like any
// write whose answer was lost, and their approvals can't be used. It has to run
// after the database was restored and before anything else uses it; to run it
// again, also on a ledger that was never restored, costs look-ups and approvals
// and nothing else.
func (l *Ledger) Restored(ctx context.Context) (int, error) {
	total := 0
	for {
		refs, err := l.refs(ctx, `SELECT tenant, id FROM operation
			WHERE state IN ('awaiting_approval', 'approved', 'dispatching') OR state = 'not_sent' AND retryable = 1
			ORDER BY tenant, id LIMIT ?`, 200)
		if err != nil || len(refs) == 0 {
			return total, edge(err)
		}
		for _, ref := range refs {
			if err := l.restore(ctx, ref); err != nil {
				return total, edge(err)
			}
			total++
		}
	}
}

// restore does not let time decide first, as change does: an approval that ran out
// since the copy was made may have been used before it did.
func (l *Ledger) restore(ctx context.Context, ref Ref) error {
	return l.db.UpdateFor(ctx, scope(ref.Tenant), func(tx *store.Tx) error {
		r, err := lock(ctx, tx, ref.Tenant, ref.ID)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		const reason = "restored from a backup; it may have been sent since that was made"
		if r.waiting() {
			r.approval.decidedBy, r.approval.reason, r.approval.decidedAt = ledgerActor, reason, now
			if err := r.decide(ctx, tx, ApprovalWithdrawn); err != nil {
				return err
			}
		}
		if r.dispatchedAt.IsZero() {
			r.dispatchedAt = r.createdAt // not before that
		}
		r.fence++
		r.claim, r.leaseUntil, r.nextLook, r.looks, r.retryable = claimNone, time.Time{}, now, 0, false
		return r.move(ctx, tx, now, connector.StateUnknown, ledgerActor, reason)
	})
}
