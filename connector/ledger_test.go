package connector_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// ledger keeps the promises of connector.Operations in memory: fenced claims,
// approvals that are used up, and bytes that no caller shares. Like a database
// it refuses to work for a context that has ended.
type ledger struct {
	stages *stages

	mu         sync.Mutex
	rows       map[connector.OperationID]*row
	finishes   []connector.Outcome
	failFinish error // from Finish, as long as it is set
}

type row struct {
	connector.OperationRecord
	fence     int64
	retryable bool
}

func newLedger(s *stages) *ledger {
	return &ledger{stages: s, rows: map[connector.OperationID]*row{}}
}

func (l *ledger) enter(ctx context.Context, stage string) error {
	l.stages.saw(stage)
	l.mu.Lock()
	return ctx.Err()
}

func (l *ledger) Find(ctx context.Context, id connector.WriteIdentity) (connector.OperationRecord, bool, error) {
	err := l.enter(ctx, "ledger.find")
	defer l.mu.Unlock()
	if err != nil {
		return connector.OperationRecord{}, false, err
	}
	rec, ok := l.standing(id)
	return rec, ok, nil
}

func (l *ledger) standing(id connector.WriteIdentity) (connector.OperationRecord, bool) {
	for _, r := range l.rows {
		ended := r.State == connector.StateRejected || r.State == connector.StateNotSent && !r.retryable
		if r.WriteIdentity == id && !ended {
			return copied(r.OperationRecord), true
		}
	}
	return connector.OperationRecord{}, false
}

func (l *ledger) Get(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (connector.OperationRecord, error) {
	err := l.enter(ctx, "ledger.get")
	defer l.mu.Unlock()
	if err != nil {
		return connector.OperationRecord{}, err
	}
	r, err := l.row(tenant, id)
	if err != nil {
		return connector.OperationRecord{}, err
	}
	return copied(r.OperationRecord), nil
}

func (l *ledger) row(tenant connector.TenantID, id connector.OperationID) (*row, error) {
	r, ok := l.rows[id]
	if !ok || r.Tenant != tenant {
		return nil, connector.Fail(connector.CodeNotFound, "")
	}
	return r, nil
}

func (l *ledger) Propose(ctx context.Context, p connector.Proposal) (connector.OperationRecord, error) {
	err := l.enter(ctx, "ledger.propose")
	defer l.mu.Unlock()
	if err != nil {
		return connector.OperationRecord{}, err
	}
	if rec, ok := l.standing(p.WriteIdentity); ok {
		if rec.Version == p.Version || rec.State != connector.StateAwaitingApproval && rec.State != connector.StateApproved {
			return rec, nil
		}
		l.rows[rec.ID].State = connector.StateNotSent
	}
	now := time.Now()
	rec := connector.OperationRecord{
		Proposal: p, State: connector.StateAwaitingApproval, CreatedAt: now,
		Approval: connector.ApprovalID(fmt.Sprintf("apr_%d", len(l.rows)+1)), ApprovalExpiresAt: now.Add(15 * time.Minute),
	}
	l.rows[p.ID] = &row{OperationRecord: copied(rec)}
	return rec, nil
}

func (l *ledger) Dispatch(ctx context.Context, tenant connector.TenantID, id connector.OperationID, authz int64) (connector.Claim, error) {
	err := l.enter(ctx, "ledger.dispatch")
	defer l.mu.Unlock()
	if err != nil {
		return connector.Claim{}, err
	}
	r, err := l.row(tenant, id)
	switch {
	case err != nil:
		return connector.Claim{}, err
	case r.State != connector.StateApproved && !(r.State == connector.StateNotSent && r.retryable):
		return connector.Claim{}, connector.Fail(connector.CodeConflict, "the operation is %s", r.State)
	case r.AuthzVersion != authz:
		return connector.Claim{}, &connector.Error{Code: connector.CodeApprovalMismatch, Operation: id}
	}
	r.State, r.DispatchedAt, r.retryable = connector.StateDispatching, time.Now(), false
	r.fence++
	return connector.Claim{OperationRecord: copied(r.OperationRecord), Fence: r.fence}, nil
}

func (l *ledger) Look(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (connector.Claim, error) {
	err := l.enter(ctx, "ledger.look")
	defer l.mu.Unlock()
	if err != nil {
		return connector.Claim{}, err
	}
	r, err := l.row(tenant, id)
	if err != nil {
		return connector.Claim{}, err
	}
	if r.State != connector.StateUnknown {
		return connector.Claim{}, connector.Fail(connector.CodeConflict, "the operation is %s", r.State)
	}
	r.Looks++
	r.fence++
	return connector.Claim{OperationRecord: copied(r.OperationRecord), Fence: r.fence}, nil
}

func (l *ledger) Finish(ctx context.Context, c connector.Claim, o connector.Outcome) (connector.OperationRecord, error) {
	err := l.enter(ctx, "ledger.finish")
	defer l.mu.Unlock()
	if err == nil {
		err = l.failFinish
	}
	if err != nil {
		return connector.OperationRecord{}, err
	}
	r, err := l.row(c.Tenant, c.ID)
	if err != nil {
		return connector.OperationRecord{}, err
	}
	again := r.State == connector.StateApplied && o.State == connector.StateApplied
	if r.fence != c.Fence || !again && r.State != connector.StateDispatching && r.State != connector.StateUnknown {
		return connector.OperationRecord{}, connector.Fail(connector.CodeConflict, "the claim was fenced off")
	}
	l.finishes = append(l.finishes, o)
	r.State, r.Reason, r.retryable = o.State, o.Reason, o.Retryable
	r.Receipt, r.Output = bytes.Clone(o.Receipt), bytes.Clone(o.Output)
	return copied(r.OperationRecord), nil
}

// approve is what a person does with the approval card.
func (l *ledger) approve(id connector.OperationID) {
	l.change(id, func(r *row) { r.State = connector.StateApproved })
}

// change edits a stored row behind the back of everyone.
func (l *ledger) change(id connector.OperationID, edit func(*row)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	edit(l.rows[id])
}

func (l *ledger) state(id connector.OperationID) connector.OperationState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[id].State
}

// only returns the id of the single operation there is.
func (l *ledger) only() connector.OperationID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rows) != 1 {
		panic(fmt.Sprintf("%d operations in the ledger, want 1", len(l.rows)))
	}
	for id := range l.rows {
		return id
	}
	return ""
}

func (l *ledger) outcomes() []connector.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.finishes)
}

// copied shares no memory with rec, as if it had been stored and read back.
func copied(rec connector.OperationRecord) connector.OperationRecord {
	rec.Arguments = bytes.Clone(rec.Arguments)
	rec.Request.Body = bytes.Clone(rec.Request.Body)
	rec.Request.Notes = slices.Clone(rec.Request.Notes)
	query := url.Values{}
	for key, values := range rec.Request.Query {
		query[key] = slices.Clone(values)
	}
	rec.Request.Query = query
	rec.Receipt, rec.Output = bytes.Clone(rec.Receipt), bytes.Clone(rec.Output)
	return rec
}
