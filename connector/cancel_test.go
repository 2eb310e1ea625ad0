package connector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: RUN9, RUN7
func TestCancelBeforeDispatchSendsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.approve(draft)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := h.execute(ctx, connector.Call{Tool: "desk.create", Arguments: []byte(draft)})
	if code(r) != "CANCELED" || r.Effect.Disposition != connector.DispositionNone {
		t.Errorf("result = %s %s, want CANCELED and no effect", code(r), r.Effect.Disposition)
	}
	if n := len(h.provider.writes()); n != 0 {
		t.Errorf("sent %d times, want 0", n)
	}
	if a := h.auditor.last(); a.Code != "CANCELED" {
		t.Errorf("audit record says %q, want CANCELED although the caller has gone", a.Code)
	}
	if r := h.call("desk.create", draft); r.Status != connector.StatusSuccess {
		t.Errorf("the approval is lost: %s %s", r.Status, code(r))
	}
}

// Guarantee: RUN9, TIX5
// Case: G3
func TestCancelDuringDispatchStopsWaitingAndNotTheWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		reply func(apply func() connector.Response) (connector.Response, error)
		state connector.OperationState
		audit connector.Status
	}{
		{"applied", func(apply func() connector.Response) (connector.Response, error) { return apply(), nil }, connector.StateApplied, connector.StatusSuccess},
		{"refused", func(func() connector.Response) (connector.Response, error) { return answer(422, `{}`), nil }, connector.StateRejected, connector.StatusError},
		{"lost", func(apply func() connector.Response) (connector.Response, error) {
			return lost(true)(nil, apply)
		}, connector.StateUnknown, connector.StatusUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t)
				ctx, cancel := context.WithCancel(t.Context())
				resume := make(chan struct{})
				h.provider.script(func(sending context.Context, apply func() connector.Response) (connector.Response, error) {
					cancel()
					<-resume
					if sending.Err() != nil {
						t.Errorf("the caller's cancellation reached the write: %v", sending.Err())
					}
					return c.reply(apply)
				})
				id := h.approve(draft)
				r := h.execute(ctx, connector.Call{Tool: "desk.create", Arguments: []byte(draft)})
				if r.Status != connector.StatusUnknown || code(r) != "OUTCOME_UNKNOWN" || r.Effect.Operation != id {
					t.Errorf("result = %s %s, want unknown", r.Status, code(r))
				}
				before := len(h.auditor.records)
				closed := make(chan struct{})
				go func() { h.runtime().Close(); close(closed) }()
				synctest.Wait()
				select {
				case <-closed:
					t.Error("Close did not wait for the write that is on its way")
				default:
				}
				close(resume)
				<-closed
				if s := h.ledger.state(id); s != c.state {
					t.Errorf("ledger says %s, want %s", s, c.state)
				}
				if a := h.auditor.last(); a.Status != c.audit || a.Operation != id || len(h.auditor.records) != before+1 {
					t.Errorf("audited as %s of %s in %d records, want how the write ended, once", a.Status, a.Operation, len(h.auditor.records)-before)
				}
				if n := len(h.provider.writes()); n != 1 {
					t.Errorf("sent %d times, want 1", n)
				}
			})
		})
	}
}

// Guarantee: RUN9, TIX5
func TestCancelAfterDispatchIsAnsweredFromTheLedger(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.create(draft)
	r := h.call("desk.create", draft)
	if !r.Replayed || r.Effect != first.Effect {
		t.Errorf("result = %s, want the recorded write", text(t, r))
	}
}

// Guarantee: RUN9
func TestDeadlineOfACallReachesTheProviderAndEndsTheRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.config.ReadTimeout = 5 * time.Second
		h.provider.scriptReads(func(ctx context.Context, _ connector.Request) (connector.Response, error) {
			<-ctx.Done()
			return connector.Response{}, ctx.Err()
		})
		started := time.Now()
		if r := h.call("desk.get", `{"id":"n1"}`); code(r) != "DEADLINE" || r.Data != nil {
			t.Errorf("read without end = %s, want DEADLINE", code(r))
		}
		if took := time.Since(started); took != 5*time.Second {
			t.Errorf("it took %v, want the 5 s of ReadTimeout", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r := h.execute(ctx, connector.Call{Tool: "desk.get", Arguments: []byte(`{"id":"n1"}`)}); code(r) != "DEADLINE" {
			t.Errorf("the caller's deadline = %s, want DEADLINE", code(r))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if r := h.execute(ctx, connector.Call{Tool: "desk.get", Arguments: []byte(`{"id":"n1"}`)}); code(r) != "CANCELED" {
			t.Errorf("the caller's cancellation = %s, want CANCELED", code(r))
		}
	})
}

// Guarantee: RUN9, TIX5
func TestWriteThatRunsOutOfTimeIsNeverNotApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.provider.script(func(ctx context.Context, apply func() connector.Response) (connector.Response, error) {
			apply()
			<-ctx.Done()
			return connector.Response{}, &connector.Error{Code: connector.CodeDeadline, Effect: connector.DispositionUnknown, Err: ctx.Err()}
		})
		id := h.approve(draft)
		r := h.call("desk.create", draft)
		if r.Status != connector.StatusUnknown || r.Effect.Operation != id {
			t.Errorf("result = %s %s, want unknown", r.Status, code(r))
		}
		if s := h.ledger.state(id); s == connector.StateRejected || s == connector.StateNotSent {
			t.Errorf("ledger says %s for an applied write", s)
		}
		if r := h.call("desk.create", draft); r.Status != connector.StatusUnknown || len(h.provider.writes()) != 1 {
			t.Errorf("second call = %s, %d sends; want unknown, 1", r.Status, len(h.provider.writes()))
		}
	})
}
