package connector

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"
)

// execution is one call on its way through the pipeline.
type execution struct {
	r          *Runtime
	caller     Caller
	call       Call
	tool       *tool
	conn       Connection
	access     *Access
	argsDigest string
	audit      AuditRecord
	audited    bool // its record is written, or another's to write
	stage      time.Time
	end        func(Observed) // nil: nobody observes
}

// Execute runs one proposal through the whole pipeline and answers with one
// Result, never an error beside it. The order of the stages is the contract: a
// refusal happens before any later stage has seen the call.
func (r *Runtime) Execute(ctx context.Context, caller Caller, call Call) (result Result) {
	// Ids and names come from a model and go into results, logs and the audit.
	long := len(call.ID) > maxName || len(call.Step) > maxName || len(call.Tool) > maxName
	call.ID, call.Step, call.Tool = short(call.ID), short(call.Step), short(call.Tool)
	if call.ID == "" {
		call.ID = newID("call_")
	}
	now := time.Now()
	x := &execution{r: r, caller: caller, call: call, stage: now}
	x.audit = AuditRecord{
		At: now, Run: caller.Run, Step: call.Step, CallID: call.ID, Tenant: caller.Tenant,
		Principal: caller.Principal, Connection: caller.Connection, Tool: call.Tool, Decision: "not_reached",
	}
	defer func() {
		if p := recover(); p != nil {
			result = x.failed(&Error{Code: CodeInternal, Err: fmt.Errorf("panic of type %T%s", p, panicPlace())})
		}
		x.close(ctx, &result)
	}()
	ctx = x.begin(ctx)
	if long {
		return x.failed(Fail(CodeInvalidInput, "a call id, step id or tool name has more than %d bytes", maxName))
	}
	result, err := x.run(ctx)
	if err != nil {
		return x.failed(AsError(err))
	}
	return result
}

const maxName = 256

func short(s string) string { return s[:min(len(s), maxName)] }

func (x *execution) run(ctx context.Context) (Result, error) {
	if !x.r.calls.first(x.caller, x.call.ID) {
		return Result{}, &Error{Code: CodeDuplicateCall}
	}
	t, ok := x.r.tools[x.call.Tool]
	if !ok {
		return Result{}, &Error{Code: CodeUnknownTool}
	}
	x.tool = t
	x.mark("lookup")

	if len(x.call.Arguments) > x.r.c.MaxArguments {
		return Result{}, &Error{Code: CodeInvalidInput, Faults: []Fault{{"", "maxLength"}}}
	}
	if found := t.op.input.Check(x.call.Arguments); len(found) > 0 {
		e := &Error{Code: CodeInvalidInput}
		for _, f := range found {
			e.Faults = append(e.Faults, Fault(f))
		}
		return Result{}, e
	}
	// From here on the arguments are in canonical form: 5.0 is 5, keys are in
	// order, and the same proposal is the same bytes.
	raw, err := canonical(x.call.Arguments)
	if err != nil {
		return Result{}, err
	}
	x.call.Arguments, x.argsDigest = raw, digestBytes(raw)
	x.mark("schema")

	decision, err := x.r.authorize(ctx, x.caller, t)
	x.audit.PolicyVersion, x.audit.Decision = decision.Version, "denied"
	if err != nil {
		return Result{}, err
	}
	x.audit.Decision = "allowed"
	x.mark("policy")

	x.conn, err = x.r.c.Connections.Resolve(ctx, x.caller, t.connector.Provider, t.op.spec.Scopes)
	if err != nil {
		return Result{}, err
	}
	x.access = x.r.access(t.connector, x.conn)
	x.mark("connection")

	switch t.op.kind {
	case kindWrite:
		return x.write(ctx)
	case kindList:
		return x.list(ctx)
	default:
		return x.read(ctx)
	}
}

// failed turns an error into the result that a caller may see.
func (x *execution) failed(e *Error) Result {
	correlation := ""
	if e.Code == CodeInternal {
		correlation = newID("cor_")
		x.audit.Correlation = correlation
		x.r.c.Logger.Error("call failed", "correlation_id", correlation, "tool", x.call.Tool,
			"call_id", x.call.ID, "cause", causeText(e))
	}
	result := x.result(StatusError)
	if e.Effect == DispositionUnknown {
		result.Status = StatusUnknown
	}
	report := e.Report()
	report.Correlation = correlation
	result.Error = &report
	result.Summary = result.Error.Message
	result.Effect = EffectReport{e.Effect, e.Operation}
	return result
}

// result starts a result with what every result of this call has.
func (x *execution) result(status Status) Result {
	result := Result{CallID: x.call.ID, Step: x.call.Step, Tool: x.call.Tool, Status: status}
	if x.access != nil {
		x.access.mu.Lock()
		defer x.access.mu.Unlock()
		c := x.tool.connector
		result.Attempts, result.Quota, result.Truncated = x.access.attempts, x.access.quota, x.access.cut
		result.Coverage.Missing = x.access.missing
		result.Provenance = &Provenance{
			Connector: c.ID, Version: c.Version, Provider: c.Provider, ProviderVersion: c.ProviderVersion,
			RequestID: x.access.request, ObjectVersions: x.access.versions, Source: x.access.source,
			FetchedAt: x.access.fetched, Limitations: c.Limitations, Copies: x.access.copies,
		}
	}
	return result
}

// close ends a call, also when the caller has gone.
func (x *execution) close(ctx context.Context, result *Result) {
	x.mark("answer")
	x.account(ctx, result)
	var code Code
	if result.Error != nil {
		code = result.Error.Code
	}
	x.observe(result, code)
}

// account writes the audit record of a call that has a result, unless it was
// written with the operation.
func (x *execution) account(ctx context.Context, result *Result) {
	if x.audited {
		return
	}
	var code Code
	if result.Error != nil {
		code = result.Error.Code
	}
	a := x.auditAs(result.Status, code, result.Effect.Operation)
	if err := x.r.c.Auditor.Record(context.WithoutCancel(ctx), a); err != nil {
		x.r.c.Logger.Error("audit record not written", "call_id", x.call.ID, "tool", x.call.Tool, slog.Any("err", err))
	}
}

// auditAs is the audit record of the call as it stands, for a given end.
func (x *execution) auditAs(status Status, code Code, operation OperationID) AuditRecord {
	a := x.audit
	a.Stages = slices.Clone(a.Stages)
	a.ArgsDigest, a.Status, a.Operation = x.argsDigest, status, operation
	if code != 0 {
		a.Code = code.String()
	}
	if x.tool != nil {
		a.Connector, a.Version = x.tool.connector.ID, x.tool.connector.Version
	}
	if x.conn.ID != "" {
		a.Connection = x.conn.ID
	}
	if x.access != nil {
		x.access.mu.Lock()
		defer x.access.mu.Unlock()
		a.RequestID, a.Attempts = x.access.request, len(x.access.attempts)
	}
	return a
}

func (x *execution) mark(stage string) {
	now := time.Now()
	x.audit.Stages = append(x.audit.Stages, Stage{stage, now.Sub(x.stage)})
	x.stage = now
}

func causeText(e *Error) string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Message
}

// panicPlace names the first frame below the panic that isn't the runtime's or
// this package's guard: enough to find the fault, and no values.
func panicPlace() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") && f.Function != "" {
			return fmt.Sprintf(" in %s line %d", f.Function, f.Line)
		}
		if !more {
			return ""
		}
	}
}
