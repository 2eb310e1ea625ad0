package operations

import (
	"context"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// ApprovalState is where an approval is.
type ApprovalState string

const (
	ApprovalPending   ApprovalState = "pending"
	ApprovalApproved  ApprovalState = "approved"
	ApprovalDenied    ApprovalState = "denied"
	ApprovalExpired   ApprovalState = "expired"
	ApprovalWithdrawn ApprovalState = "withdrawn"
	ApprovalUsed      ApprovalState = "used"
)

// Approve lets the approved bytes be sent once, before the approval expires.
// id is an approval's id or a unique beginning of it, by who says so. Approving
// twice is the same as once; any other state than pending is CONFLICT.
func (l *Ledger) Approve(ctx context.Context, tenant connector.TenantID, id, by string) (Card, error) {
	return l.judge(ctx, tenant, id, by, func(tx *store.Tx, r *row, now time.Time) error {
		a := &r.approval
		if a.state == ApprovalApproved {
			return nil
		}
		if a.state != ApprovalPending {
			return decided(r)
		}
		a.decidedBy, a.reason, a.decidedAt = storable(by, maxName), "", now
		if err := r.decide(ctx, tx, ApprovalApproved); err != nil {
			return err
		}
		return r.move(ctx, tx, now, connector.StateApproved, by, "")
	})
}

// Deny ends a pending approval and its operation. The reason is optional.
// Denying twice is the same as once; any other state is CONFLICT.
func (l *Ledger) Deny(ctx context.Context, tenant connector.TenantID, id, by, reason string) (Card, error) {
	return l.judge(ctx, tenant, id, by, func(tx *store.Tx, r *row, now time.Time) error {
		switch r.approval.state {
		case ApprovalDenied:
			return nil
		case ApprovalPending:
			return r.end(ctx, tx, now, ApprovalDenied, by, reason)
		}
		return decided(r)
	})
}

// Withdraw takes a proposal back, also after it was approved, as long as it was
// not used. The reason is optional. Withdrawing twice is the same as once; any
// other state is CONFLICT.
func (l *Ledger) Withdraw(ctx context.Context, tenant connector.TenantID, id, by, reason string) (Card, error) {
	return l.judge(ctx, tenant, id, by, func(tx *store.Tx, r *row, now time.Time) error {
		switch r.approval.state {
		case ApprovalWithdrawn:
			return nil
		case ApprovalPending, ApprovalApproved:
			return r.end(ctx, tx, now, ApprovalWithdrawn, by, reason)
		}
		return decided(r)
	})
}

func decided(r *row) error {
	return &connector.Error{Code: connector.CodeConflict, Operation: r.id, Approval: r.approval.id,
		Message: "the approval is " + string(r.approval.state)}
}

// judge runs one person's decision and returns the card as it is then.
func (l *Ledger) judge(ctx context.Context, tenant connector.TenantID, id, by string, fn func(*store.Tx, *row, time.Time) error) (Card, error) {
	if strings.TrimSpace(by) == "" {
		return Card{}, connector.Fail(connector.CodeInvalidInput, "a decision needs somebody who takes it")
	}
	op, err := l.resolve(ctx, findsApproval, tenant, id)
	if err != nil {
		return Card{}, edge(err)
	}
	r, err := l.change(ctx, tenant, op, fn)
	if err != nil {
		return Card{}, edge(err)
	}
	c, err := l.seal.card(&r)
	return c, edge(err)
}

// KillConnection ends everything of a connection that was not sent: pending
// and approved approvals die, and a dispatch that is on its way can't give its
// approval back. With tx it is part of the caller's transaction, which must be
// a write transaction of the same database and within the tenant's scope, or it
// finds nothing to end; with nil it has its own. It returns how many operations
// ended.
func (l *Ledger) KillConnection(ctx context.Context, tx *store.Tx, tenant connector.TenantID, connection connector.ConnectionID, reason string) (int, error) {
	var ended int
	kill := func(tx *store.Tx) (err error) {
		ended, err = l.killConnection(ctx, tx, tenant, connection, reason)
		return err
	}
	if tx != nil {
		// The caller's transaction needs the database's own error to be retried.
		return ended, kill(tx)
	}
	err := l.db.UpdateFor(ctx, scope(tenant), kill)
	return ended, edge(err)
}

func (l *Ledger) killConnection(ctx context.Context, tx *store.Tx, tenant connector.TenantID, connection connector.ConnectionID, reason string) (int, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return 0, err
	}
	open, err := lockOpen(ctx, tx, tenant, connection)
	if err != nil {
		return 0, err
	}
	ended := 0
	for i := range open {
		r := &open[i]
		if err := r.loadApproval(ctx, tx); err != nil {
			return 0, err
		}
		if r.state == connector.StateDispatching {
			r.approval.revoked = true
			if err := r.decide(ctx, tx, r.approval.state); err != nil {
				return 0, err
			}
			continue
		}
		if err := r.end(ctx, tx, now, ApprovalWithdrawn, ledgerActor, reason); err != nil {
			return 0, err
		}
		ended++
	}
	return ended, nil
}

// lockOpen locks what a connection's end touches.
func lockOpen(ctx context.Context, tx *store.Tx, tenant connector.TenantID, connection connector.ConnectionID) ([]row, error) {
	rows, err := tx.Query(ctx, `UPDATE operation SET rev = rev WHERE tenant = ? AND connection = ? AND
		(state IN ('awaiting_approval', 'approved', 'dispatching') OR state = 'not_sent' AND retryable = 1)
		RETURNING `+operationColumns, tenant, connection)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var open []row
	for rows.Next() {
		var r row
		if err := rows.Scan(r.fields()...); err != nil {
			return nil, err
		}
		open = append(open, r)
	}
	return open, rows.Err()
}
