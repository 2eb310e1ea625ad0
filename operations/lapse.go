package operations

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// overdue tells whether time has decided something that is not written yet.
func (l *Ledger) overdue(r *row, now time.Time) bool {
	return r.waiting() && !now.Before(r.approval.expiresAt) ||
		r.state == connector.StateDispatching && !now.Before(r.leaseUntil) ||
		l.gaveUp(r, now)
}

// gaveUp tells whether an operation has been looked up for long enough. One
// that nobody has looked at yet gets its look, however long the outage was. The
// last look is due at the very end of that time, and has a lease's time to come.
func (l *Ledger) gaveUp(r *row, now time.Time) bool {
	return r.state == connector.StateUnknown && r.looks > 0 && !now.Before(r.leaseUntil) &&
		!now.Before(r.dispatchedAt.Add(l.giveUp+l.lease))
}

// lapse writes what time alone has decided. The claim of a lapsed lease stays
// open: if its process lives after all, its outcome is still the best evidence
// as long as nobody has taken over.
func (l *Ledger) lapse(ctx context.Context, tx *store.Tx, r *row, now time.Time) error {
	switch {
	case !l.overdue(r, now):
		return nil
	case r.waiting():
		return r.end(ctx, tx, now, ApprovalExpired, ledgerActor, "")
	case r.state == connector.StateDispatching:
		r.nextLook = now
		return r.move(ctx, tx, now, connector.StateUnknown, ledgerActor, "the process that was sending it is gone")
	}
	r.nextLook = time.Time{}
	return r.move(ctx, tx, now, connector.StateUnresolved, ledgerActor, "no look-up settled it in time")
}

// Swept counts what a sweep has written.
type Swept struct {
	Lost       int // dispatching -> unknown: the sender's lease ran out
	Expired    int // approvals that ran out
	Unresolved int // unknown -> unresolved: looked up for long enough
}

const (
	lapsedDispatches = `SELECT tenant, id FROM operation WHERE state = 'dispatching' AND lease_until <= ?1
		ORDER BY lease_until LIMIT 200`
	lapsedApprovals = `SELECT tenant, operation FROM operation_approval WHERE state IN ('pending', 'approved') AND expires_at <= ?1
		ORDER BY expires_at LIMIT 200`
	lapsedLooks = `SELECT tenant, id FROM operation WHERE state = 'unknown' AND looks > 0 AND lease_until <= ?1
		AND dispatched_at <= ?2 ORDER BY dispatched_at LIMIT 200`
)

// Sweep writes what time has decided in all tenants. Call it at start and from
// time to time, in any number of processes; what it does is also done by
// whoever touches a row, so nothing is wrong between two sweeps.
func (l *Ledger) Sweep(ctx context.Context) (Swept, error) {
	var s Swept
	for _, kind := range []struct {
		query string
		count *int
	}{{lapsedDispatches, &s.Lost}, {lapsedApprovals, &s.Expired}, {lapsedLooks, &s.Unresolved}} {
		n, err := l.lapseAll(ctx, kind.query)
		*kind.count += n
		if err != nil {
			return s, edge(err)
		}
	}
	return s, nil
}

// lapseAll goes through everything that a query finds, one short transaction
// an operation, so that a long backlog never holds up a dispatch.
func (l *Ledger) lapseAll(ctx context.Context, query string) (int, error) {
	done := 0
	for {
		now, err := l.db.Now(ctx)
		if err != nil {
			return done, err
		}
		args := []any{moment(now)}
		if query == lapsedLooks {
			args = append(args, moment(now.Add(-l.giveUp-l.lease)))
		}
		refs, err := l.refs(ctx, query, args...)
		if err != nil || len(refs) == 0 {
			return done, err
		}
		progress := 0
		for _, ref := range refs {
			r, err := l.touch(ctx, ref.Tenant, ref.ID)
			if err != nil {
				return done, err
			}
			if r.moved {
				progress++
			}
		}
		done += progress
		// Without progress others are doing the same work.
		if progress == 0 {
			return done, nil
		}
	}
}
