package connector

import "context"

// An Observer sees each call begin and end, on the goroutine of the call. Begin
// returns the context that the call runs under and what is called at its end,
// neither nil. Tool is empty when there is no tool of the name that the call
// gave, which is a model's own words. It must be safe for concurrent use.
type Observer interface {
	Begin(ctx context.Context, tool string) (context.Context, func(Observed))
}

// Observed is how a call ended, with no argument, value or id of a person.
type Observed struct {
	Connector, Provider string // empty: unknown tool
	Status              Status
	Code                Code // zero: no error
	Effect              EffectReport
	Replayed            bool
	Attempts            int
	Deprecated          bool // the tool says that it will go
	Stages              []Stage
}

func (x *execution) begin(ctx context.Context) context.Context {
	if o := x.r.c.Observer; o != nil && x.r.tools[x.call.Tool] != nil {
		ctx, x.end = o.Begin(ctx, x.call.Tool)
	} else if o != nil {
		ctx, x.end = o.Begin(ctx, "")
	}
	return ctx
}

func (x *execution) observe(result *Result, code Code) {
	if x.end == nil {
		return
	}
	o := Observed{Status: result.Status, Code: code, Effect: result.Effect, Replayed: result.Replayed, Attempts: len(result.Attempts), Stages: x.audit.Stages}
	if x.tool != nil {
		o.Connector, o.Provider = x.tool.connector.ID, x.tool.connector.Provider
		o.Deprecated = x.tool.op.spec.Deprecated != ""
	}
	_ = guard(func() error { x.end(o); return nil }) // the call is over, whatever its observer does
}
