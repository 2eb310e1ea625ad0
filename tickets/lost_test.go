package tickets_test

import (
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// T02, T16, T17, T22, T23 on a create: the provider has committed, and whatever
// came back is no proof. The result says so, nothing is sent again, and the
// look-up finds the one ticket.
// Guarantee: TIX5, TIX6, NET8, RUN4
func TestCreateLostAnswerIsUnknownAndSettled(t *testing.T) {
	t.Parallel()
	after := func(kind string, e sandbox.Effect) sandbox.Effect {
		e.Kind, e.When = kind, "after"
		return e
	}
	all := newDesk(t).connect("alice")
	for name, effect := range map[string]sandbox.Effect{
		"T02 no answer":              {Kind: "lose_answer_after_commit"},
		"T02 headers only":           {Kind: "lose_answer_after_commit", Variant: "after_headers"},
		"T02 half a body":            {Kind: "lose_answer_after_commit", Variant: "half_body"},
		"T02 500 after the commit":   after("status", sandbox.Effect{Status: 500}),
		"T02 502 after the commit":   after("status", sandbox.Effect{Status: 502}),
		"T02 503 after the commit":   after("status", sandbox.Effect{Status: 503}),
		"T02 504 after the commit":   after("status", sandbox.Effect{Status: 504}),
		"T02 408 after the commit":   after("status", sandbox.Effect{Status: 408}),
		"T03 409 to our own key":     after("status", sandbox.Effect{Status: 409, Body: `{"error":"idempotency_key_reused"}`}),
		"T06 201 without an id":      after("status", sandbox.Effect{Status: 201, Body: `{"title":"x"}`}),
		"T06 201 with a number":      after("status", sandbox.Effect{Status: 201, Body: `{"id":35436}`}),
		"T16 301":                    after("redirect", sandbox.Effect{Status: 301, Location: "/"}),
		"T16 302":                    after("redirect", sandbox.Effect{Status: 302, Location: "/"}),
		"T16 303":                    after("redirect", sandbox.Effect{Status: 303, Location: "/"}),
		"T16 a list with 200":        after("status", sandbox.Effect{Status: 200, Body: `[{"id":"WEB-1"}]`}),
		"T17 200 with a page":        after("html", sandbox.Effect{Status: 200}),
		"T17 200, a page as JSON":    after("html", sandbox.Effect{Status: 200, Variant: "json"}),
		"T17 502 with a page":        after("html", sandbox.Effect{Status: 502}),
		"T22 200 with an error":      after("status", sandbox.Effect{Status: 200, Body: `{"error":"401 Credentials Required"}`}),
		"T22 success false":          after("status", sandbox.Effect{Status: 200, Body: `{"success":false,"id":null}`}),
		"T23 empty 201":              after("empty", sandbox.Effect{Status: 201}),
		"T23 no content":             after("empty", sandbox.Effect{}),
		"T23 cut off":                {Kind: "truncate"},
		"T23 gzip without its end":   {Kind: "truncate", Variant: "gzip"},
		"T23 garbage behind":         {Kind: "trailing_garbage"},
		"T23 called text":            {Kind: "wrong_content_type"},
		"T23 over the limit":         after("oversized", sandbox.Effect{Status: 201, Bytes: 8 << 20}),
		"T23 a bomb":                 after("gzip_bomb", sandbox.Effect{Status: 201, Bytes: 64 << 20}),
		"T23 the same name twice":    after("status", sandbox.Effect{Status: 201, Body: `{"id":"a","id":"b"}`}),
		"T23 a name in another case": after("status", sandbox.Effect{Status: 201, Body: `{"ID":"a"}`}),
	} {
		t.Run(name, func(t *testing.T) {
			alice, draft := all.in(t), titled(t)
			pending := alice.approved(draft)
			alice.misbehave(rule(onCreate, effect))
			lost := alice.call("tickets.create", draft)
			alice.expect("the lost answer", lost, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown)
			if lost.Error == nil {
				t.FailNow()
			}
			if lost.Error.Next != connector.NextLookUpOperation || lost.Effect.Operation == "" || lost.Receipt != nil {
				t.Errorf("advice %s, operation %q, receipt %v", lost.Error.Next, lost.Effect.Operation, lost.Receipt)
			}
			again := alice.call("tickets.create", draft)
			alice.expect("the same call again", again, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown)
			alice.counts("before the look-up", 1, 1)

			rec := alice.settle(lost.Effect.Operation)
			made := alice.made()
			if rec.State != connector.StateApplied || made.IdempotencyKey != string(rec.ID) || made.ExternalRef != string(rec.ID) {
				t.Errorf("settled as %s (%s); the ticket has key %q and reference %q", rec.State, rec.Reason, made.IdempotencyKey, made.ExternalRef)
			}
			settled := alice.call("tickets.create", draft)
			alice.expect("after settling", settled, connector.StatusSuccess, 0, connector.DispositionApplied)
			if r := settled.Receipt; !settled.Replayed || r == nil || r.ExternalID() != made.TicketID || r.How() != "look_up" || r.Proof() != connector.ProofVerified {
				t.Errorf("receipt %+v, replayed %v; the ticket is %s", r, settled.Replayed, made.TicketID)
			}
			alice.counts("in the end", 1, 1)
			if made.BodySHA256 != digest(pending.Body) {
				t.Error("the provider got other bytes than were approved")
			}
		})
	}
}

// T02: nothing has left this process, so the same approval is good for another try.
// Guarantee: TIX5
func TestT02NothingSentIsNotUnknown(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	alice.approved(draft)
	alice.org.Close()
	r := alice.call("tickets.create", draft)
	alice.expect("no provider there", r, connector.StatusError, connector.CodeUnavailable, connector.DispositionNotApplied)
	if rec := alice.record(r.Effect.Operation); rec.State != connector.StateNotSent {
		t.Errorf("state %s, want not_sent", rec.State)
	}
}

// T04: the ticket appears after the first look-up has found nothing.
// Guarantee: TIX5
func TestT04LateCommitIsFoundAfterAnEmptyLookUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	alice := d.connect("alice")
	d.retime(time.Hour, 200*time.Millisecond) // we hang up long before it commits
	alice.approved(draft)
	alice.misbehave(rule(onCreate, sandbox.Effect{Kind: "delay", DelayMS: 1500}))
	lost := alice.call("tickets.create", draft)
	alice.expect("hung up", lost, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown)
	early := alice.settle(lost.Effect.Operation)
	if len(alice.creates()) == 0 && early.State != connector.StateUnknown {
		t.Errorf("an early look-up settled it as %s (%s)", early.State, early.Reason)
	}
	for len(alice.creates()) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if early.State == connector.StateUnknown {
		if late := alice.settle(lost.Effect.Operation); late.State != connector.StateApplied {
			t.Errorf("the late look-up settled it as %s (%s)", late.State, late.Reason)
		}
	}
	alice.counts("late commit", 1, 1)
}

// T04: after the settle time a complete look-up that finds nothing is a proof,
// and the operation's end leaves the way free for a new proposal.
// Guarantee: TIX5
func TestT04AbsenceAfterTheSettleTimeIsProof(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	alice := d.connect("alice")
	d.retime(time.Nanosecond, 0)
	alice.approved(draft)
	alice.misbehave(rule(onCreate, sandbox.Effect{Kind: "reset_before"}))
	lost := alice.call("tickets.create", draft)
	alice.expect("reset", lost, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown)
	if rec := alice.settle(lost.Effect.Operation); rec.State != connector.StateRejected {
		t.Errorf("settled as %s (%s), want rejected", rec.State, rec.Reason)
	}
	alice.misbehave()
	made := alice.create(draft)
	alice.expect("proposed anew", made, connector.StatusSuccess, 0, connector.DispositionApplied)
	if made.Effect.Operation == lost.Effect.Operation {
		t.Error("a dead operation was used again")
	}
	alice.counts("in the end", 2, 1)
}

// T09, T10, T11, T42: a look-up that can't be complete proves no absence, also
// long after the settle time.
// Guarantee: TIX5
func TestLookUpThatCannotTellLeavesItUnknown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	all := d.connect("alice")
	d.retime(time.Nanosecond, 0)
	gone := rule(onLookUp, sandbox.Effect{Kind: "switch", Switches: sandbox.Switches{NoOperationLookup: true}})
	for _, c := range []struct {
		name  string
		rules []sandbox.Rule
		edit  func(*person)
	}{
		{"T10 index lag and no operation look-up", []sandbox.Rule{gone,
			rule(onList, sandbox.Effect{Kind: "switch", Switches: sandbox.Switches{IndexLagMS: 3600_000}})}, nil},
		{"T11 look-up answers 500", []sandbox.Rule{answers(onLookUp, 500, "")}, nil},
		{"T11 look-up answers 403", []sandbox.Rule{answers(onLookUp, 403, "")}, nil},
		{"T11 list answers 500", []sandbox.Rule{gone, answers(onList, 500, "")}, nil},
		{"T11 list ignores the filter and shows others", []sandbox.Rule{gone,
			answers(onList, 200, `{"items":[{"id":"WEB-1","type":"ticket","project":{"id":"web"},"external_ref":""}],"next_cursor":null,"total":1}`)}, nil},
		{"T17 look-up answers a page", []sandbox.Rule{rule(onLookUp, sandbox.Effect{Kind: "html", Status: 200})}, nil},
		{"T22 look-up answers 200 with an error", []sandbox.Rule{answers(onLookUp, 200, `{"error":"busy"}`)}, nil},
		{"T22 list answers 200 with an error", []sandbox.Rule{gone, answers(onList, 200, `{"error":"busy"}`)}, nil},
		{"T23 look-up is cut off", []sandbox.Rule{rule(onLookUp, sandbox.Effect{Kind: "truncate"})}, nil},
		{"T42 access to the project is gone", nil, func(p *person) {
			if err := p.org.SetAccess("alice", "web", sandbox.RoleNone); err != nil {
				p.t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			alice, draft := all.in(t), titled(t)
			alice.approved(draft)
			alice.misbehave(rule(onCreate, sandbox.Effect{Kind: "lose_answer_after_commit"}))
			lost := alice.call("tickets.create", draft)
			if c.edit != nil {
				c.edit(alice)
			}
			alice.misbehave(c.rules...)
			if rec := alice.settle(lost.Effect.Operation); rec.State != connector.StateUnknown {
				t.Errorf("settled as %s (%s), want unknown", rec.State, rec.Reason)
			}
			if c.edit != nil {
				if err := alice.org.SetAccess("alice", "web", sandbox.RoleMember); err != nil {
					t.Fatal(err)
				}
			}
			alice.misbehave()
			if rec := alice.settle(lost.Effect.Operation); rec.State != connector.StateApplied {
				t.Errorf("with a good look-up: %s (%s), want applied", rec.State, rec.Reason)
			}
			alice.counts("in the end", 1, 1)
		})
	}
}

// T09: the key is taken and ignored. The operation look-up then knows nothing
// of a ticket that is there, and its no must not be believed alone.
// Guarantee: TIX5
func TestT09IgnoredKeyIsFoundByReference(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	alice := d.connect("alice")
	d.retime(time.Nanosecond, 0)
	alice.approved(draft)
	if err := d.org.SetBehaviour(sandbox.Behaviour{Switches: sandbox.Switches{NoIdempotency: true},
		Rules: []sandbox.Rule{rule(onCreate, sandbox.Effect{Kind: "lose_answer_after_commit"})}}); err != nil {
		t.Fatal(err)
	}
	lost := alice.call("tickets.create", draft)
	if rec := alice.settle(lost.Effect.Operation); rec.State != connector.StateApplied {
		t.Errorf("settled as %s (%s), want applied", rec.State, rec.Reason)
	}
	alice.counts("in the end", 1, 1)
}

// T10: the reference is found by list when there is no operation look-up.
func TestT10FoundByReferenceAfterTheLag(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	alice.approved(draft)
	alice.misbehave(rule(onCreate, sandbox.Effect{Kind: "lose_answer_after_commit"}))
	lost := alice.call("tickets.create", draft)
	alice.switches(sandbox.Switches{NoOperationLookup: true})
	rec := alice.settle(lost.Effect.Operation)
	if rec.State != connector.StateApplied {
		t.Errorf("settled as %s (%s), want applied", rec.State, rec.Reason)
	}
	alice.counts("in the end", 1, 1)
}

// T01, T09: the same call at the same time and again is one ticket, also at an
// organisation that ignores the key.
// Guarantee: TIX5
func TestT01TheSameCallIsOneTicket(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	alice.switches(sandbox.Switches{NoIdempotency: true})
	alice.approved(draft)
	results := make(chan connector.Result)
	for range 4 {
		go func() { results <- alice.call("tickets.create", draft) }()
	}
	applied := ""
	for range 4 {
		r := <-results
		switch {
		case r.Status == connector.StatusSuccess:
			if applied != "" && applied != r.Receipt.ExternalID() {
				t.Errorf("two tickets: %s and %s", applied, r.Receipt.ExternalID())
			}
			applied = r.Receipt.ExternalID()
		case code(r) == connector.CodeOutcomeUnknown: // another one has it under way, or has just done it
		default:
			t.Errorf("%s %v", r.Status, code(r))
		}
	}
	alice.counts("four calls", 1, 1)
	again := alice.call("tickets.create", draft)
	if !again.Replayed || again.Receipt == nil || again.Receipt.ExternalID() != applied {
		t.Errorf("the call again: %+v", again)
	}
	other := draft
	other.Title += "."
	alice.expect("one byte more", alice.call("tickets.create", other), connector.StatusError, connector.CodeApprovalRequired, connector.DispositionNone)
	alice.counts("in the end", 1, 1)
}

var _ tickets.Driver = timed{}
