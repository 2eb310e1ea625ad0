package operations

import (
	"context"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Verdict is what a person found out about a write that no look-up settled.
type Verdict struct {
	State      connector.OperationState // applied or rejected
	By         string                   // required
	Reason     string                   // required: how they know
	ExternalID string                   // the provider's id; only with applied, optional
}

// Settle ends an unknown or unresolved operation by a person's word and fences
// off every claim on it. id is an operation's id or a unique beginning of it.
// Such an operation has no receipt: a receipt states what was proven to this
// program. Any other state is CONFLICT.
//
// Rejected frees the identity, so that the same write can be proposed again.
// If the person was wrong there will be two.
func (l *Ledger) Settle(ctx context.Context, tenant connector.TenantID, id string, v Verdict) (Detail, error) {
	switch {
	case strings.TrimSpace(v.By) == "":
		return Detail{}, connector.Fail(connector.CodeInvalidInput, "a decision needs somebody who takes it")
	case strings.TrimSpace(v.Reason) == "":
		return Detail{}, connector.Fail(connector.CodeInvalidInput, "settling by hand needs a reason")
	case v.State != connector.StateApplied && v.State != connector.StateRejected:
		return Detail{}, connector.Fail(connector.CodeInvalidInput, "an operation is settled as applied or rejected")
	case v.State == connector.StateRejected && v.ExternalID != "":
		return Detail{}, connector.Fail(connector.CodeInvalidInput, "a rejected write has no external id")
	}
	op, err := l.resolve(ctx, findsOperation, tenant, id)
	if err != nil {
		return Detail{}, edge(err)
	}
	_, err = l.change(ctx, tenant, op, func(tx *store.Tx, r *row, now time.Time) error {
		if r.state != connector.StateUnknown && r.state != connector.StateUnresolved {
			return &connector.Error{Code: connector.CodeConflict, Operation: r.id,
				Message: "only an unknown outcome is settled by hand; the operation is " + string(r.state)}
		}
		r.fence++
		r.claim, r.leaseUntil, r.nextLook = claimNone, time.Time{}, time.Time{}
		r.settledBy, r.externalID = storable(v.By, maxName), storable(v.ExternalID, maxName)
		return r.move(ctx, tx, now, v.State, v.By, v.Reason)
	})
	if err != nil {
		return Detail{}, edge(err)
	}
	return l.Operation(ctx, tenant, string(op))
}
