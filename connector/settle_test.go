package connector_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// loseAnswer leaves a write unknown at the provider's or without it.
func loseAnswer(h *harness, applied bool) connector.OperationID {
	h.t.Helper()
	h.provider.script(lost(applied))
	id := h.approve(draft)
	if r := h.call("desk.create", draft); r.Status != connector.StatusUnknown {
		h.t.Fatalf("a lost answer ended as %s %s, want unknown", r.Status, code(r))
	}
	h.forget()
	return id
}

// Guarantee: TIX5, TIX6
func TestLostAnswerIsSettledByALookUpAndNeverSentAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := loseAnswer(h, true)
	for range 3 {
		if r := h.call("desk.create", draft); r.Status != connector.StatusUnknown || r.Effect.Operation != id {
			t.Fatalf("call before settling ended as %s %s", r.Status, code(r))
		}
	}
	rec, err := h.runtime().Settle(t.Context(), "acme", id)
	if err != nil || rec.State != connector.StateApplied {
		t.Fatalf("Settle = %s, %v; want applied", rec.State, err)
	}
	r := h.call("desk.create", draft)
	if r.Status != connector.StatusSuccess || !r.Replayed || r.Receipt.How() != "look_up" ||
		r.Receipt.ExternalID() != "n1" || r.Receipt.Proof() != connector.ProofCommitted {
		t.Errorf("answer after settling = %s", text(t, r))
	}
	if sent, applied := len(h.provider.writes()), h.provider.applied(); sent != 1 || applied != 1 {
		t.Errorf("sent %d, applied %d; want 1 and 1", sent, applied)
	}
}

// Guarantee: TIX5
func TestAbsenceIsBelievedOnlyAfterTheSettleTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.toy.steps.Settle = time.Minute
		id := loseAnswer(h, false)
		for _, c := range []struct {
			wait time.Duration
			want connector.OperationState
		}{
			{0, connector.StateUnknown},
			{time.Minute - time.Nanosecond, connector.StateUnknown},
			{time.Nanosecond, connector.StateRejected},
		} {
			time.Sleep(c.wait)
			rec, err := h.runtime().Settle(t.Context(), "acme", id)
			if err != nil || rec.State != c.want {
				t.Errorf("%v later: %s, %v; want %s", c.wait, rec.State, err, c.want)
			}
		}
		if n := len(h.provider.writes()); n != 1 {
			t.Errorf("sent %d times, want 1", n)
		}
		// What was proven absent may be proposed anew, as another operation
		// that a person approves again.
		h.provider.script(nil)
		r := h.call("desk.create", draft)
		if code(r) != "APPROVAL_REQUIRED" || r.Effect.Operation == id {
			t.Errorf("next proposal = %s, want a new one for approval", text(t, r))
		}
	})
}

// Guarantee: TIX5
func TestWriteThatAppearsLateIsFoundAfterAnEarlyAbsence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.toy.steps.Settle = time.Minute
		var commit func() connector.Response
		h.provider.script(func(_ context.Context, apply func() connector.Response) (connector.Response, error) {
			commit = apply
			return connector.Response{}, &connector.Error{Code: connector.CodeDeadline, Effect: connector.DispositionUnknown}
		})
		id := h.approve(draft)
		h.call("desk.create", draft)
		if rec, err := h.runtime().Settle(t.Context(), "acme", id); err != nil || rec.State != connector.StateUnknown {
			t.Fatalf("early look-up: %s, %v; want unknown", rec.State, err)
		}
		commit()
		if rec, err := h.runtime().Settle(t.Context(), "acme", id); err != nil || rec.State != connector.StateApplied {
			t.Errorf("late look-up: %s, %v; want applied", rec.State, err)
		}
		if n := len(h.provider.writes()); n != 1 {
			t.Errorf("sent %d times, want 1", n)
		}
	})
}

// Guarantee: TIX5, RUN5
func TestLookUpThatProvesNothingLeavesTheWriteUnknown(t *testing.T) {
	t.Parallel()
	type find = func(context.Context, *connector.Access, connector.OperationID, createIn) (note, connector.Found, error)
	finds := func(f find) func(*harness) { return func(h *harness) { h.toy.steps.Find = f } }
	for _, c := range []struct {
		name   string
		before func(*harness) // the runtime is built
		after  func(*harness) // the write was sent
		looks  bool
	}{
		{name: "cannot tell", looks: true, before: finds(func(context.Context, *connector.Access, connector.OperationID, createIn) (note, connector.Found, error) {
			return note{}, connector.CannotTell, nil
		})},
		{name: "says yes without an id", looks: true, before: finds(func(context.Context, *connector.Access, connector.OperationID, createIn) (note, connector.Found, error) {
			return note{}, connector.FoundYes, nil
		})},
		{name: "says no and fails", looks: true, before: finds(func(context.Context, *connector.Access, connector.OperationID, createIn) (note, connector.Found, error) {
			return note{}, connector.FoundNo, errors.New("page 2 of 3 failed")
		})},
		{name: "says yes and fails", looks: true, before: finds(func(context.Context, *connector.Access, connector.OperationID, createIn) (note, connector.Found, error) {
			return note{ID: "n1"}, connector.FoundYes, errors.New("half an answer")
		})},
		{name: "panics", looks: true, before: finds(func(context.Context, *connector.Access, connector.OperationID, createIn) (note, connector.Found, error) {
			panic("find")
		})},
		{name: "an answer that is no member of the list", looks: true, before: finds(func(context.Context, *connector.Access, connector.OperationID, createIn) (note, connector.Found, error) {
			return note{ID: "n1"}, connector.Found(9), nil
		})},
		{name: "provider is down", looks: true, after: func(h *harness) {
			h.provider.scriptReads(func(context.Context, connector.Request) (connector.Response, error) { return answer(503, `{}`), nil })
		}},
		{name: "not allowed to look", looks: true, after: func(h *harness) {
			h.provider.scriptReads(func(context.Context, connector.Request) (connector.Response, error) {
				return answer(http.StatusForbidden, `{}`), nil
			})
		}},
		{name: "another account", after: func(h *harness) {
			h.changeConnection(func(c *connector.Connection) { c.Account.Subject = "someone-else" })
		}},
		{name: "another issuer", after: func(h *harness) {
			h.changeConnection(func(c *connector.Connection) { c.Account.Issuer = "https://id2.example" })
		}},
		{name: "connection gone", after: func(h *harness) { h.resolveErr = &connector.Error{Code: connector.CodeConnectionRequired} }},
		{name: "scope gone", after: func(h *harness) { h.resolveErr = &connector.Error{Code: connector.CodeScopeRequired} }},
		{name: "tool not mounted", after: func(h *harness) {
			h.ledger.change(h.ledger.only(), func(r *row) { r.Tool = "desk.gone" })
		}},
		{name: "tool is a read now", looks: true, after: func(h *harness) {
			h.ledger.change(h.ledger.only(), func(r *row) { r.Tool = "desk.get" })
		}},
	} {
		for _, applied := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				h := newHarness(t)
				if c.before != nil {
					c.before(h)
				}
				id := loseAnswer(h, applied)
				if c.after != nil {
					c.after(h)
				}
				rec, err := h.runtime().Settle(t.Context(), "acme", id)
				if err != nil || rec.State != connector.StateUnknown || rec.Reason == "" {
					t.Errorf("Settle = %s (%s), %v; want unknown with a reason", rec.State, rec.Reason, err)
				}
				if !c.looks && (h.seen()["find"] != 0 || h.seen()["transport.read"] != 0) {
					t.Errorf("the provider was asked: %v", h.seen())
				}
				if leaks(rec.Reason, "page 2 of 3", "half an answer") {
					t.Errorf("reason has the author's error text: %s", rec.Reason)
				}
				h.mu.Lock()
				h.resolveErr = nil
				h.mu.Unlock()
				h.call("desk.create", draft)
				if n := len(h.provider.writes()); n != 1 {
					t.Errorf("sent %d times, want 1", n)
				}
			})
		}
	}
}

// Guarantee: TIX5
func TestSettledOrForeignOperationIsNotLookedUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := loseAnswer(h, true)
	if _, err := h.runtime().Settle(t.Context(), "other", id); connector.CodeOf(err) != connector.CodeNotFound {
		t.Errorf("another tenant's look-up = %v, want NOT_FOUND", err)
	}
	if _, err := h.runtime().Settle(t.Context(), "acme", id); err != nil {
		t.Fatal(err)
	}
	h.forget()
	if _, err := h.runtime().Settle(t.Context(), "acme", id); connector.CodeOf(err) != connector.CodeConflict {
		t.Errorf("second look-up = %v, want CONFLICT", err)
	}
	if n := h.seen()["find"]; n != 0 {
		t.Errorf("Find ran %d times on a settled operation, want 0", n)
	}
}

// Guarantee: TIX5
func TestClaimThatWasFencedOffChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var second connector.OperationRecord
	var nested error
	inner := h.toy.steps.Find
	h.toy.steps.Find = func(ctx context.Context, a *connector.Access, id connector.OperationID, in createIn) (note, connector.Found, error) {
		if second.State == "" { // while the first looks, another process takes over and wins
			second.State = "taken"
			second, nested = h.runtime().Settle(ctx, "acme", id)
			return note{}, connector.FoundNo, nil
		}
		return inner(ctx, a, id, in)
	}
	id := loseAnswer(h, true)
	_, err := h.runtime().Settle(t.Context(), "acme", id)
	if nested != nil || second.State != connector.StateApplied {
		t.Fatalf("the later claim = %s, %v; want applied", second.State, nested)
	}
	if connector.CodeOf(err) != connector.CodeConflict || h.ledger.state(id) != connector.StateApplied {
		t.Errorf("the earlier claim = %v and left %s, want CONFLICT and applied", err, h.ledger.state(id))
	}
}

// Guarantee: TIX5
func TestLookUpGetsTheArgumentsAndTheOperationItIsFor(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var in createIn
	var asked, own connector.OperationID
	h.toy.steps.Find = func(_ context.Context, a *connector.Access, id connector.OperationID, given createIn) (note, connector.Found, error) {
		asked, own, in = id, a.Operation(), given
		return note{}, connector.CannotTell, nil
	}
	id := loseAnswer(h, true)
	if _, err := h.runtime().Settle(t.Context(), "acme", id); err != nil {
		t.Fatal(err)
	}
	if asked != id || own != id || in.Title != "printer on fire" {
		t.Errorf("Find got %s, %s, %+v; want %s and the stored arguments", asked, own, in, id)
	}
}
