package connector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// write proposes, or finds out that the proposal was made before, and goes as
// far as the operation's state allows.
func (x *execution) write(ctx context.Context) (Result, error) {
	intent := x.call.Intent
	if intent == "" {
		intent = "args:" + x.argsDigest
	}
	identity := WriteIdentity{x.conn.Tenant, x.conn.Principal, x.conn.ID, x.call.Tool, intent}
	rec, found, err := x.r.c.Operations.Find(ctx, identity)
	if err == nil && (!found || x.outdated(rec)) {
		rec, err = x.propose(ctx, identity)
	}
	if err != nil {
		return Result{}, err
	}
	x.mark("ledger")
	if rec.ArgsDigest != x.argsDigest {
		return Result{}, &Error{Code: CodeConflict, Operation: rec.ID,
			Message: "the same intent was proposed before with another payload"}
	}
	switch rec.State {
	case StateApplied:
		return x.applied(rec, true)
	case StateApproved, StateNotSent:
		if rec.Version != x.tool.connector.Version {
			return Result{}, &Error{Code: CodeApprovalMismatch, Operation: rec.ID, Approval: rec.Approval,
				Message: "it was approved for another version of the connector"}
		}
		return x.dispatch(ctx, rec)
	case StateAwaitingApproval:
		result := x.failed(&Error{Code: CodeApprovalRequired, Operation: rec.ID, Approval: rec.Approval})
		result.Pending = pending(rec)
		return result, nil
	case StateDispatching:
		return Result{}, unknown(rec.ID, "the operation is on its way; look it up")
	default:
		return Result{}, unknown(rec.ID, "")
	}
}

// outdated tells whether a proposal that was never sent was drawn up by another
// version of the connector. It would stand in the way until it expires, so it is
// proposed anew, and a person is asked again.
func (x *execution) outdated(rec OperationRecord) bool {
	switch rec.State {
	case StateAwaitingApproval, StateApproved, StateNotSent:
		return rec.Version != x.tool.connector.Version && rec.ArgsDigest == x.argsDigest
	}
	return false
}

func unknown(id OperationID, message string) *Error {
	return &Error{Code: CodeOutcomeUnknown, Effect: DispositionUnknown, Operation: id, Message: message}
}

// propose plans the request and records it. What is stored here is what will be
// sent; Plan is never asked again.
func (x *execution) propose(ctx context.Context, identity WriteIdentity) (OperationRecord, error) {
	op := x.tool.op
	x.access.op = OperationID(newID("op_"))
	planning, cancel := context.WithTimeout(ctx, x.r.c.ReadTimeout)
	defer cancel()
	var request Request
	err := guard(func() (err error) {
		request, err = op.plan(planning, x.access, x.call.Arguments)
		return err
	})
	x.mark("plan")
	if err != nil {
		return OperationRecord{}, err
	}
	switch request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return OperationRecord{}, Fail(CodeInternal, "the plan's method is not a write")
	}
	request.OperationID, request.Profile, request.DedupeHeader = x.access.op, x.conn.Profile, ""
	if op.dedupe.Kind == DedupeHeader {
		request.DedupeHeader = op.dedupe.Name
	}
	p := Proposal{
		WriteIdentity: identity, ID: x.access.op, Connector: x.tool.connector.ID, Version: x.tool.connector.Version,
		Provider: x.tool.connector.Provider, Account: x.conn.Account, AuthzVersion: x.conn.AuthzVersion,
		Arguments: x.call.Arguments, ArgsDigest: x.argsDigest, Request: request, Settle: op.settle,
		CallID: x.call.ID, Run: x.caller.Run,
	}
	if p.Digest, err = payloadDigest(p); err != nil {
		return OperationRecord{}, err
	}
	audit := x.auditAs(StatusError, CodeApprovalRequired, p.ID)
	p.Audit = &audit
	rec, err := x.r.c.Operations.Propose(ctx, p)
	x.audited = err == nil && rec.Audited
	return rec, err
}

// dispatch sends the stored bytes, once. From the moment the ledger says
// dispatching, the write runs to its recorded end: a caller who gives up stops
// waiting for it and learns nothing false. The audit record is the sender's from
// then on, so that it says how the write ended and not that nobody waited.
func (x *execution) dispatch(ctx context.Context, rec OperationRecord) (Result, error) {
	claim, err := x.r.c.Operations.Dispatch(ctx, rec.Tenant, rec.ID, x.conn.AuthzVersion)
	if err != nil && AsError(err).Effect == DispositionApplied { // by another process, a moment ago
		if rec, err = x.r.c.Operations.Get(ctx, rec.Tenant, rec.ID); err == nil && rec.State == StateApplied {
			return x.applied(rec, true)
		}
	}
	if err != nil {
		return Result{}, err
	}
	x.mark("claim")
	done := make(chan Result, 1)
	sender := &execution{r: x.r, call: x.call, tool: x.tool, conn: x.conn, access: x.access, argsDigest: x.argsDigest, audit: x.audit, stage: x.stage}
	sender.audit.Stages = slices.Clone(x.audit.Stages)
	x.audited = true
	x.r.dispatches.Go(func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.r.c.WriteTimeout)
		defer cancel()
		result, err := sender.send(own, claim)
		if err != nil {
			result = sender.failed(AsError(err))
		}
		sender.account(own, &result)
		done <- result
	})
	select {
	case result := <-done:
		return result, nil
	case <-ctx.Done():
		x.access = nil // the sender's from here on
		return Result{}, unknown(rec.ID, "the caller stopped waiting; the write goes on and is recorded")
	}
}

func (x *execution) send(ctx context.Context, claim Claim) (Result, error) {
	access := x.access
	// The approval covers these bytes at this place and no others, so they are
	// digested again after they came out of the store.
	if digest, err := payloadDigest(claim.Proposal); err != nil || digest != claim.Digest || claim.Request.Profile != access.conn.Profile {
		return Result{}, x.ends(ctx, claim, Outcome{State: StateNotSent, Reason: "what is stored is not what was approved"},
			&Error{Code: CodeApprovalMismatch, Operation: claim.ID})
	}
	var resp Response
	err := guard(func() (err error) {
		if resp, err = access.transport.Do(ctx, access.conn, ClassWrite, claim.Request); err != nil {
			return err
		}
		if e := access.judge(claim.Request, resp, ClassWrite); e != nil {
			return e
		}
		return nil
	})
	access.note(claim.Request, resp)
	x.mark("provider")
	if err != nil {
		return Result{}, x.notApplied(ctx, claim, err)
	}
	var d decoded
	decodeErr := guard(func() (err error) {
		d, err = x.tool.op.decode(resp)
		return err
	})
	if d.id == "" {
		// A 2xx without an id is not a receipt; the look-up has to find it.
		return Result{}, x.unproven(ctx, claim, "a success answer without a readable id")
	}
	proof := ProofCommitted
	if resp.Status == http.StatusAccepted {
		proof = ProofAccepted
	}
	rec, err := x.prove(ctx, claim, d, proof, "answer", decodeErr != nil)
	if err != nil {
		return Result{}, unrecorded(claim, err)
	}
	return x.applied(rec, false)
}

// notApplied sorts a failed dispatch by what it proves. Only an error that says
// "not applied" proves anything; all others, panics among them, may have left
// a write behind.
func (x *execution) notApplied(ctx context.Context, claim Claim, err error) error {
	e := *AsError(err)
	e.Operation = claim.ID
	if e.Effect != DispositionNotApplied {
		return x.unproven(ctx, claim, e.Code.String())
	}
	outcome := Outcome{State: StateRejected, Reason: e.Code.String()}
	switch e.Code {
	case CodeUnavailable, CodeOverloaded, CodeDeadline, CodeCanceled, CodeRateLimited, CodeConnectionRequired:
		// Nobody looked at the payload, so the approval of it still stands.
		outcome.State, outcome.Retryable = StateNotSent, true
	case CodeEgressBlocked:
		outcome.State = StateNotSent
	}
	return x.ends(ctx, claim, outcome, &e)
}

func (x *execution) unproven(ctx context.Context, claim Claim, reason string) error {
	return x.ends(ctx, claim, Outcome{State: StateUnknown, Reason: reason}, unknown(claim.ID, ""))
}

// ends records an outcome that is an error to the caller, and returns what the
// caller is to be told.
func (x *execution) ends(ctx context.Context, claim Claim, o Outcome, e *Error) error {
	status := StatusError
	if e.Effect == DispositionUnknown {
		status = StatusUnknown
	}
	audit := x.auditAs(status, e.Code, claim.ID)
	o.Audit = &audit
	rec, err := x.r.record(ctx, claim, o)
	if err != nil {
		return unrecorded(claim, err)
	}
	x.audited = rec.Audited
	return e
}

// record writes down an outcome, with time of its own: the write's may be used up.
func (r *Runtime) record(ctx context.Context, claim Claim, o Outcome) (OperationRecord, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return r.c.Operations.Finish(ctx, claim, o)
}

// unrecorded is the answer when an outcome could not be written down. The row
// still says dispatching, and recovery takes it up as unknown.
func unrecorded(claim Claim, err error) *Error {
	e := unknown(claim.ID, "the outcome could not be recorded; recovery will look it up")
	e.Err = err
	return e
}

// applied answers with a receipt from the ledger, first time or replayed.
func (x *execution) applied(rec OperationRecord, replayed bool) (Result, error) {
	result := x.result(StatusSuccess)
	result.Replayed = replayed
	result.Data = rec.Output
	result.Effect = EffectReport{DispositionApplied, rec.ID}
	r := new(Receipt)
	if len(rec.Receipt) == 0 {
		// A person's word ends an operation; it is not evidence that we saw.
		result.Summary = x.tool.op.spec.Title + ": a person found that it is done"
		result.Coverage.Missing = append(result.Coverage.Missing, Missing{What: "receipt", Reason: "settled_by_person"})
		return covered(result), nil
	}
	if err := json.Unmarshal(rec.Receipt, &r.r); err != nil {
		return Result{}, &Error{Code: CodeInternal, Effect: DispositionApplied, Operation: rec.ID, Err: err}
	}
	result.Receipt = r
	result.Summary = fmt.Sprintf("%s: done as %s, %s", x.tool.op.spec.Title, r.r.ExternalID, r.r.Proof)
	if len(r.r.Differences) > 0 {
		result.Coverage.Missing = append(result.Coverage.Missing, Missing{What: "sent fields", Reason: "dropped_by_provider", Count: len(r.r.Differences)})
		result.Summary += fmt.Sprintf(", but the provider stored %d fields otherwise", len(r.r.Differences))
	}
	if len(rec.Output) == 0 {
		result.Coverage.Missing = append(result.Coverage.Missing, Missing{What: "data", Reason: "unread_field"})
	}
	return covered(result), nil
}

// prove records a write as applied before anything else is asked of the
// provider, then tries to verify it. A failed read-back weakens the receipt and
// never the effect.
func (x *execution) prove(ctx context.Context, claim Claim, d decoded, proof Proof, how string, unread bool) (OperationRecord, error) {
	r := receipt{
		Operation: claim.ID, Tool: claim.Tool, Version: claim.Version, Proof: proof, How: how, ExternalID: d.id,
		ArgsDigest: claim.ArgsDigest, Digest: claim.Digest, OccurredAt: time.Now().UTC(),
	}
	output := d.data
	if unread || len(output) > x.r.c.MaxResultBytes || x.tool.op.output.Conforms(output) != nil {
		output = nil // applied all the same; the result says that it has no data
	}
	record := func(audit *AuditRecord) (OperationRecord, error) {
		raw, err := json.Marshal(r)
		if err != nil {
			return OperationRecord{}, err
		}
		return x.r.record(ctx, claim, Outcome{State: StateApplied, Receipt: raw, Output: output, Audit: audit})
	}
	var audit *AuditRecord // a look-up is nobody's call
	if x.call.Tool != "" {
		a := x.auditAs(StatusSuccess, 0, claim.ID)
		audit = &a
	}
	rec, err := record(audit)
	x.audited = err == nil && rec.Audited
	if err != nil || x.tool.op.verify == nil || unread {
		return rec, err
	}
	x.access.pin()
	var changes []Change
	if guard(func() (err error) {
		changes, err = x.tool.op.verify(ctx, x.access, d, claim.Arguments)
		return err
	}) != nil {
		return rec, nil
	}
	r.Proof, r.Differences = ProofVerified, changes
	if better, err := record(nil); err == nil {
		rec = better
	}
	return rec, nil
}

// recordTimeout is for writing down what became of a write.
const recordTimeout = 15 * time.Second

// Settle looks one unknown operation up at the provider and records what that
// proves. It never sends the write again.
func (r *Runtime) Settle(ctx context.Context, tenant TenantID, id OperationID) (OperationRecord, error) {
	if r.c.Operations == nil {
		return OperationRecord{}, Fail(CodeNotFound, "nothing writes here")
	}
	claim, err := r.c.Operations.Look(ctx, tenant, id)
	if err != nil {
		return OperationRecord{}, err
	}
	later := func(reason string) (OperationRecord, error) {
		return r.record(ctx, claim, Outcome{State: StateUnknown, Reason: reason})
	}
	t, ok := r.tools[claim.Tool]
	if !ok {
		return later("no connector for it is mounted")
	}
	caller := Caller{Tenant: claim.Tenant, Principal: claim.Principal, Connection: claim.Connection}
	conn, err := r.c.Connections.Resolve(ctx, caller, claim.Provider, t.op.spec.Scopes)
	if err != nil {
		return later("connection: " + CodeOf(err).String())
	}
	// Another account would not see the write, and its absence would be a lie.
	if conn.Account.Subject != claim.Account.Subject || conn.Account.Issuer != claim.Account.Issuer {
		return later("the connection is another account now")
	}
	x := &execution{r: r, tool: t, conn: conn, access: r.access(t.connector, conn)}
	x.access.op, x.access.since = claim.ID, claim.DispatchedAt
	ctx, cancel := context.WithTimeout(ctx, r.c.ReadTimeout)
	defer cancel()
	var d decoded
	found := CannotTell
	asOf := time.Now() // an absence is as old as the question, not as the answer
	err = guard(func() (err error) {
		d, found, err = t.op.find(ctx, x.access, claim.ID, claim.Arguments)
		return err
	})
	switch {
	case err != nil:
		return later("look-up: " + CodeOf(err).String())
	case found == FoundYes && d.id != "":
		return x.prove(ctx, claim, d, ProofCommitted, "look_up", false)
	case found == FoundNo && !asOf.Before(claim.DispatchedAt.Add(claim.Settle)):
		return r.record(ctx, claim, Outcome{State: StateRejected, Reason: "absent after the settle time, in a complete look-up"})
	case found == FoundNo:
		return later("absent, but the settle time is not over")
	}
	return later("the look-up cannot tell")
}
