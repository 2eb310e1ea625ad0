package operations

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Look leases an unknown operation for one look-up and fences earlier claims
// off. It does not wait for the scheduled time, so a person can ask for a look
// at once. While another claim's lease runs, and for an operation that waits for
// a person, it is OUTCOME_UNKNOWN; for one that is settled or was never sent,
// CONFLICT, and its record says more.
func (l *Ledger) Look(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (connector.Claim, error) {
	var claim connector.Claim
	_, err := l.change(ctx, tenant, id, func(tx *store.Tx, r *row, now time.Time) error {
		switch r.state {
		case connector.StateUnknown:
			if now.Before(r.leaseUntil) {
				return pendingOutcome(r, now)
			}
		case connector.StateDispatching, connector.StateUnresolved:
			return pendingOutcome(r, now)
		default:
			return &connector.Error{Code: connector.CodeConflict, Operation: r.id,
				Message: "there is nothing to look up: the operation is " + string(r.state)}
		}
		r.fence++
		r.looks++
		r.claim, r.leaseUntil = claimLook, now.Add(l.lease)
		r.nextLook = r.leaseUntil // when this process dies, the next may look
		if err := r.move(ctx, tx, now, connector.StateUnknown, ledgerActor, "being looked up"); err != nil {
			return err
		}
		rec, err := l.seal.record(r)
		claim = connector.Claim{OperationRecord: rec, Fence: r.fence}
		return err
	})
	if err != nil {
		return connector.Claim{}, edge(err)
	}
	return claim, nil
}

// A Ref names one operation.
type Ref struct {
	Tenant connector.TenantID
	ID     connector.OperationID
}

// Due lists operations of all tenants that should be looked up now, the longest
// waiting first, at most limit (zero or less: 100). Operations whose dispatch
// lost its process come along. Look decides who gets one.
func (l *Ledger) Due(ctx context.Context, limit int) ([]Ref, error) {
	if limit <= 0 {
		limit = 100
	}
	if _, err := l.lapseAll(ctx, lapsedDispatches); err != nil {
		return nil, edge(err)
	}
	now, err := l.db.Now(ctx)
	if err != nil {
		return nil, edge(err)
	}
	refs, err := l.refs(ctx, `SELECT tenant, id FROM operation WHERE state = 'unknown' AND next_look <= ?
		ORDER BY next_look, tenant, id LIMIT ?`, moment(now), limit)
	return refs, edge(err)
}

// refs finds operations of all tenants.
func (l *Ledger) refs(ctx context.Context, query string, args ...any) ([]Ref, error) {
	var refs []Ref
	err := l.db.EachFor(ctx, store.AllTenants(), func(row store.Scanner) error {
		var ref Ref
		err := row.Scan(&ref.Tenant, &ref.ID)
		refs = append(refs, ref)
		return err
	}, query, args...)
	return refs, err
}
