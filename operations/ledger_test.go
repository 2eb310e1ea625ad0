package operations

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestWriteFromProposalToReceipt(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		p := proposal(acme, "step-1", "printer on fire")
		rec := b.propose(p)
		if diff := cmp.Diff(p, rec.Proposal); diff != "" {
			t.Errorf("the record holds another proposal (-proposed +recorded):\n%s", diff)
		}
		if rec.State != connector.StateAwaitingApproval || rec.Approval == "" || !rec.ApprovalExpiresAt.Equal(rec.CreatedAt.Add(30*time.Minute)) {
			t.Errorf("record = %s, approval %q until %v (created %v)", rec.State, rec.Approval, rec.ApprovalExpiresAt, rec.CreatedAt)
		}
		b.approve(rec)
		c := b.dispatch(rec)
		if diff := cmp.Diff(p, c.Proposal); diff != "" {
			t.Errorf("the claim holds other bytes (-proposed +claimed):\n%s", diff)
		}
		if c.State != connector.StateDispatching || c.Fence != 1 || c.DispatchedAt.IsZero() {
			t.Errorf("claim = %s, fence %d, dispatched %v", c.State, c.Fence, c.DispatchedAt)
		}
		done := b.finish(c, connector.Outcome{State: connector.StateApplied, Receipt: []byte(`{"proof":"committed"}`), Output: []byte(`{"id":"T1"}`)})
		// The same claim may strengthen the receipt after reading back.
		b.finish(c, connector.Outcome{State: connector.StateApplied, Receipt: []byte(`{"proof":"verified"}`), Output: []byte(`{"id":"T1"}`)})
		got, found, err := b.replica().Find(t.Context(), p.WriteIdentity)
		if err != nil || !found {
			t.Fatalf("find: %v, found %v", err, found)
		}
		if got.State != connector.StateApplied || string(got.Receipt) != `{"proof":"verified"}` || string(got.Output) != `{"id":"T1"}` {
			t.Errorf("found %s with receipt %s and output %s", got.State, got.Receipt, got.Output)
		}
		if done.State != connector.StateApplied || string(done.Receipt) != `{"proof":"committed"}` {
			t.Errorf("finish returned %s with receipt %s", done.State, done.Receipt)
		}
		d, err := b.Operation(t.Context(), acme, string(rec.ID))
		if err != nil {
			t.Fatal(err)
		}
		var states []connector.OperationState
		for i, e := range d.History {
			states = append(states, e.To)
			if e.Seq != int64(i+1) || e.At.IsZero() || e.Actor == "" {
				t.Errorf("event %d = %+v", i, e)
			}
		}
		want := []connector.OperationState{"awaiting_approval", "approved", "dispatching", "applied", "applied"}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}

// A field that is added to connector.Request must be stored too, or dispatch
// would send something else than was approved.
func TestEveryFieldOfARequestIsStored(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	p := proposal(acme, "step-1", "x")
	p.Request = connector.Request{
		Method: "PATCH", Path: "/a b/ü", Query: url.Values{"a": {"1", "2"}, "b": {""}}, ContentType: "x/y", Body: []byte{0, 255},
		DedupeHeader: "K", OperationID: "op_x", ResourceVersion: "v", Summary: "<s>", Notes: []string{"n"}, Unchanged: "etag",
		Profile: "acme-desk", Cacheable: true,
	}
	for i := range reflect.TypeOf(p.Request).NumField() {
		if reflect.ValueOf(p.Request).Field(i).IsZero() {
			t.Fatalf("this test doesn't fill Request.%s", reflect.TypeOf(p.Request).Field(i).Name)
		}
	}
	if diff := cmp.Diff(p.Request, b.propose(p).Request, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("stored request (-proposed +stored):\n%s", diff)
	}
}

// Guarantee: TIX5
func TestT12RaceOfProposersLeavesOneRow(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		replicas := []*Ledger{b.Ledger, b.replica()}
		if other, err := New(Config{DB: b.d.Open(Migrations()), Keys: b.ring}); err == nil {
			replicas[1] = other
		}
		ps := make([]connector.Proposal, 50)
		for i := range ps {
			ps[i] = proposal(acme, "step-1", "printer on fire")
		}
		ids := make([]connector.OperationID, len(ps))
		var wg sync.WaitGroup
		for i, p := range ps {
			wg.Go(func() {
				rec, err := replicas[i%2].Propose(t.Context(), p)
				if err != nil {
					t.Errorf("proposer %d: %v", i, err)
				}
				ids[i] = rec.ID
			})
		}
		wg.Wait()
		for i, id := range ids {
			if id != ids[0] {
				t.Fatalf("proposer %d got %s, proposer 0 got %s", i, id, ids[0])
			}
		}
		lines, err := b.Operations(t.Context(), acme, Filter{})
		if err != nil || len(lines) != 1 {
			t.Errorf("%d operations (%v), want 1", len(lines), err)
		}
	})
}

// Guarantee: TIX5
func TestT01RaceOfSendersGivesOneClaim(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		second, err := New(Config{DB: b.d.Open(Migrations()), Keys: b.ring})
		if err != nil {
			t.Fatal(err)
		}
		rec := b.propose(proposal(acme, "step-1", "printer on fire"))
		b.approve(rec)
		var claims atomic.Int32
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				_, err := []*Ledger{b.Ledger, second}[i%2].Dispatch(t.Context(), acme, rec.ID, 7)
				if err == nil {
					claims.Add(1)
					return
				}
				e := connector.AsError(err)
				if e.Code != connector.CodeOutcomeUnknown || e.Effect != connector.DispositionUnknown || e.Operation != rec.ID {
					t.Errorf("loser %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if n := claims.Load(); n != 1 {
			t.Errorf("%d claims, want 1", n)
		}
	})
}

// Guarantee: TIX5
func TestT01SecondDispatchAfterTheFirstFinished(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		b.finish(c, connector.Outcome{State: connector.StateApplied, Receipt: []byte(`{"id":1}`)})
		got, err := b.Dispatch(t.Context(), acme, c.ID, 7)
		e := fails(t, err, connector.CodeOutcomeUnknown)
		if e.Effect != connector.DispositionApplied || e.Operation != c.ID {
			t.Errorf("error = %+v", e)
		}
		if got.Fence != 0 || got.State != connector.StateApplied || string(got.Receipt) != `{"id":1}` {
			t.Errorf("claim has fence %d, state %s, receipt %s", got.Fence, got.State, got.Receipt)
		}
		// No fence, no right to report anything.
		_, err = b.Finish(t.Context(), got, connector.Outcome{State: connector.StateRejected})
		fails(t, err, connector.CodeConflict)
		b.is(c.OperationRecord, connector.StateApplied)
	})
}

func TestE13SameIntentWithAnotherPayloadIsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		first := b.propose(proposal(acme, "step-1", "printer on fire"))
		_, err := b.Propose(t.Context(), proposal(acme, "step-1", "printer on fire!"))
		if e := fails(t, err, connector.CodeConflict); e.Operation != first.ID {
			t.Errorf("the conflict names %q, want %q", e.Operation, first.ID)
		}
		// After it is over the intent may carry another payload.
		if _, err := b.Deny(t.Context(), acme, string(first.Approval), "bob", "no"); err != nil {
			t.Fatal(err)
		}
		b.propose(proposal(acme, "step-1", "printer on fire!"))
	})
}

func TestIdentityIsEveryPartOfIt(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		seen := map[connector.OperationID]bool{}
		for _, change := range []func(*connector.Proposal){
			func(*connector.Proposal) {},
			func(p *connector.Proposal) { p.Tenant = other },
			func(p *connector.Proposal) { p.Principal = "carol" },
			func(p *connector.Proposal) { p.Connection = "con_2" },
			func(p *connector.Proposal) { p.Tool = "tickets.other" },
			func(p *connector.Proposal) { p.Intent = "step-2" },
		} {
			p := proposal(acme, "step-1", "printer on fire")
			change(&p)
			if _, found, err := b.Find(t.Context(), p.WriteIdentity); err != nil || found {
				t.Errorf("found %v before it was proposed (%v)", p.WriteIdentity, err)
			}
			seen[b.propose(p).ID] = true
		}
		if len(seen) != 6 {
			t.Errorf("%d operations, want 6", len(seen))
		}
	})
}

func TestFreedIdentityTakesTheSamePayloadAgain(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for _, o := range []connector.Outcome{
			{State: connector.StateRejected, Reason: "INVALID_INPUT"},
			{State: connector.StateNotSent, Reason: "EGRESS_BLOCKED"},
		} {
			c := b.dispatched("step-1")
			b.finish(c, o)
			if _, found, err := b.Find(t.Context(), c.WriteIdentity); found || err != nil {
				t.Errorf("%s still stands for its identity (%v)", o.State, err)
			}
			again := b.propose(proposal(acme, "step-1", "printer on fire"))
			if again.ID == c.ID || again.Approval == c.Approval {
				t.Errorf("after %s the proposal got the old operation", o.State)
			}
			if _, err := b.Withdraw(t.Context(), acme, string(again.Approval), "alice", ""); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestOtherTenantSeesNothing(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		rec := b.propose(proposal(acme, "step-1", "printer on fire"))
		b.approve(rec)
		ctx := t.Context()
		op, apr := string(rec.ID), string(rec.Approval)
		for name, call := range map[string]func(connector.TenantID, string, string) error{
			"Get": func(x connector.TenantID, op, apr string) error {
				_, err := b.Get(ctx, x, connector.OperationID(op))
				return err
			},
			"Dispatch": func(x connector.TenantID, op, apr string) error {
				_, err := b.Dispatch(ctx, x, connector.OperationID(op), 7)
				return err
			},
			"Look": func(x connector.TenantID, op, apr string) error {
				_, err := b.Look(ctx, x, connector.OperationID(op))
				return err
			},
			"Finish": func(x connector.TenantID, op, apr string) error {
				c := connector.Claim{OperationRecord: rec, Fence: 1}
				c.Tenant, c.ID = x, connector.OperationID(op)
				_, err := b.Finish(ctx, c, connector.Outcome{State: connector.StateApplied})
				return err
			},
			"Approve": func(x connector.TenantID, op, apr string) error { _, err := b.Approve(ctx, x, apr, "bob"); return err },
			"Deny":    func(x connector.TenantID, op, apr string) error { _, err := b.Deny(ctx, x, apr, "bob", ""); return err },
			"Withdraw": func(x connector.TenantID, op, apr string) error {
				_, err := b.Withdraw(ctx, x, apr, "bob", "")
				return err
			},
			"Approval":  func(x connector.TenantID, op, apr string) error { _, err := b.Approval(ctx, x, apr); return err },
			"Operation": func(x connector.TenantID, op, apr string) error { _, err := b.Operation(ctx, x, op); return err },
			"Settle": func(x connector.TenantID, op, apr string) error {
				_, err := b.Settle(ctx, x, op, Verdict{State: connector.StateRejected, By: "bob", Reason: "r"})
				return err
			},
		} {
			foreign := fails(t, call(other, op, apr), connector.CodeNotFound)
			absent := fails(t, call(acme, "op_absent", "apr_absent"), connector.CodeNotFound)
			if foreign.Error() != absent.Error() {
				t.Errorf("%s: foreign answers %q, absent %q", name, foreign, absent)
			}
		}
		if lines, err := b.Operations(ctx, other, Filter{}); err != nil || len(lines) != 0 {
			t.Errorf("other tenant lists %v (%v)", lines, err)
		}
		if cards, err := b.Approvals(ctx, other, Filter{}); err != nil || len(cards) != 0 {
			t.Errorf("other tenant lists %v (%v)", cards, err)
		}
		if n, err := b.KillConnection(ctx, nil, other, "con_1", "disconnected"); err != nil || n != 0 {
			t.Errorf("other tenant ended %d operations (%v)", n, err)
		}
		b.is(rec, connector.StateApproved)
	})
}

func TestProposalMustBeComplete(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	for name, test := range map[string]struct {
		change func(*connector.Proposal)
		want   connector.Code
	}{
		"no tenant":       {func(p *connector.Proposal) { p.Tenant = "" }, connector.CodeInternal},
		"no principal":    {func(p *connector.Proposal) { p.Principal = "" }, connector.CodeInternal},
		"no digest":       {func(p *connector.Proposal) { p.Digest = "" }, connector.CodeInternal},
		"negative settle": {func(p *connector.Proposal) { p.Settle = -1 }, connector.CodeInternal},
		"NUL in intent":   {func(p *connector.Proposal) { p.Intent = "a\x00" }, connector.CodeInvalidInput},
		"not UTF-8":       {func(p *connector.Proposal) { p.Intent = "a\xff" }, connector.CodeInvalidInput},
		"endless intent":  {func(p *connector.Proposal) { p.Intent = strings.Repeat("a", 1<<20) }, connector.CodeInvalidInput},
	} {
		p := proposal(acme, "step-1", "x")
		test.change(&p)
		_, err := b.Propose(t.Context(), p)
		if got := connector.CodeOf(err); got != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestTakenOperationIDIsNotOverwritten(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		p := proposal(acme, "step-1", "printer on fire")
		first := b.propose(p)
		if again := b.propose(p); again.Approval != first.Approval {
			t.Errorf("the same proposal again got another approval")
		}
		p.Intent = "step-2"
		_, err := b.Propose(t.Context(), p)
		fails(t, err, connector.CodeInternal)
		if got := b.get(first); got.Intent != "step-1" {
			t.Errorf("operation has intent %s", got.Intent)
		}
	})
}

// Guarantee: RUN9
func TestFinishOutlivesItsCaller(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.Finish(ctx, c, connector.Outcome{State: connector.StateApplied, Receipt: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		b.is(c.OperationRecord, connector.StateApplied)
		if _, err := b.Get(ctx, acme, c.ID); connector.CodeOf(err) != connector.CodeCanceled {
			t.Errorf("a cancelled read: %v, want CANCELED", err)
		}
	})
}

func TestExportIsEveryOperationOnce(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		want := map[connector.OperationID]bool{}
		for i := range 230 { // more than two pages, many in one millisecond
			want[b.propose(proposal(acme, fmt.Sprint("intent ", i), "x")).ID] = true
		}
		b.propose(proposal(other, "theirs", "x"))
		var last time.Time
		err := b.Export(t.Context(), acme, func(d Detail) error {
			if !want[d.ID] || !last.IsZero() && d.CreatedAt.After(last) || len(d.History) == 0 || d.Card.Sentence.Shown == "" {
				t.Errorf("%s: not expected here, or without its card or history", d.ID)
			}
			delete(want, d.ID)
			last = d.CreatedAt
			return nil
		})
		if err != nil || len(want) != 0 {
			t.Errorf("%d operations are missing: %v", len(want), err)
		}
		enough := errors.New("enough")
		if err := b.Export(t.Context(), acme, func(Detail) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("the reader's refusal became %v", err)
		}
	})
}
