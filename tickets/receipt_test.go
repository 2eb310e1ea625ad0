package tickets_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// T05: what fails behind a good create weakens the receipt and nothing else.
// Guarantee: TIX6
func TestT05ReadBackFailsAfterAGoodCreate(t *testing.T) {
	t.Parallel()
	all := newDesk(t).connect("alice")
	for name, r := range map[string]sandbox.Rule{
		"secondary rate limit": answers(onGet, 403, `{"message":"You have exceeded a secondary rate limit"}`),
		"not found":            answers(onGet, 404, ""),
		"a page":               rule(onGet, sandbox.Effect{Kind: "html", Status: 200}),
		"another ticket":       answers(onGet, 200, `{"id":"WEB-1","type":"ticket","project":{"id":"web"}}`),
		"failing":              answers(onGet, 500, ""),
	} {
		t.Run(name, func(t *testing.T) {
			alice, draft := all.in(t), titled(t)
			alice.approved(draft)
			alice.misbehave(r)
			made := alice.call("tickets.create", draft)
			alice.expect("created", made, connector.StatusSuccess, 0, connector.DispositionApplied)
			if rc := made.Receipt; rc == nil || rc.Proof() != connector.ProofCommitted || rc.How() != "answer" || rc.ExternalID() != alice.made().TicketID {
				t.Errorf("receipt %+v", rc)
			}
			if again := alice.call("tickets.create", draft); !again.Replayed {
				t.Errorf("the call again: %s %v", again.Status, code(again))
			}
			alice.counts("in the end", 1, 1)
		})
	}
}

// T06: the id proves the write, also when the rest can't be read; the result
// says that it could not.
// Guarantee: TIX6
func TestT06UnreadableAnswerWithAnIdIsApplied(t *testing.T) {
	t.Parallel()
	all := newDesk(t).connect("alice")
	for name, body := range map[string]string{
		"field of another shape": `{"id":"35436","project":{"id":"web"},"severity":{"new":"shape"}}`,
		"number over int64":      `{"id":"35436","version":114094276114114094276114}`,
		"time that is none":      `{"id":"35436","created_at":"yesterday"}`,
		"state of another word":  `{"id":"35436","project":{"id":"web"},"state":"reopened","title":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			alice, draft := all.in(t), titled(t)
			alice.approved(draft)
			alice.misbehave(rule(onCreate, sandbox.Effect{Kind: "status", When: "after", Status: 201, Body: body}))
			made := alice.call("tickets.create", draft)
			alice.expect("created", made, connector.StatusPartial, 0, connector.DispositionApplied)
			if rc := made.Receipt; rc == nil || rc.Proof() != connector.ProofCommitted || rc.ExternalID() != "35436" {
				t.Errorf("receipt %+v", rc)
			}
			if diff := cmp.Diff([]connector.Missing{{What: "data", Reason: "unread_field"}}, made.Coverage.Missing); diff != "" || len(made.Data) > 0 {
				t.Errorf("data %s, coverage (-want +got):\n%s", made.Data, diff)
			}
			alice.counts("in the end", 1, 1)
		})
	}
}

// T13: what the provider dropped without a word is listed, and nothing is sent
// to repair it.
// Guarantee: TIX6
func TestT13DroppedFieldsAreListed(t *testing.T) {
	t.Parallel()
	all := newDesk(t).connect("alice")
	for _, c := range []struct {
		name   string
		labels []string
		drop   []string
		want   []connector.Change
	}{
		{"label that the project does not know", []string{"bug", "mystery"}, nil, []connector.Change{{Pointer: "/labels", Sent: "bug, mystery", Stored: "bug"}}},
		{"all labels", []string{"bug", "p1"}, []string{"labels"}, []connector.Change{{Pointer: "/labels", Sent: "bug, p1"}}},
		{"severity and evidence", []string{"bug"}, []string{"severity", "evidence"}, []connector.Change{
			{Pointer: "/severity", Sent: "critical", Stored: "medium"}, {Pointer: "/evidence", Sent: "WEB-1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			alice, draft := all.in(t), titled(t)
			draft.Labels, draft.Severity = c.labels, "critical"
			alice.switches(sandbox.Switches{DropFields: c.drop})
			made := alice.create(draft)
			alice.expect("created", made, connector.StatusPartial, 0, connector.DispositionApplied)
			if made.Receipt == nil || made.Receipt.Proof() != connector.ProofVerified {
				t.Fatalf("receipt %+v", made.Receipt)
			}
			if diff := cmp.Diff(c.want, made.Receipt.Differences()); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]connector.Missing{{What: "sent fields", Reason: "dropped_by_provider", Count: len(c.want)}}, made.Coverage.Missing); diff != "" {
				t.Errorf("coverage (-want +got):\n%s", diff)
			}
			alice.counts("in the end", 1, 1)
		})
	}
}

// A receipt names the object, the proposal and the proof.
// Guarantee: TIX6, RUN4
func TestReceiptOfAGoodCreate(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	pending := alice.approved(draft)
	made := alice.call("tickets.create", draft)
	alice.expect("created", made, connector.StatusSuccess, 0, connector.DispositionApplied)
	w, got := alice.made(), ticketOf(t, made)
	if got.ID != w.TicketID || got.Project != "web" || got.Title != draft.Title || got.State != "open" || got.Status != "triage" || got.Version != "1" {
		t.Errorf("data %+v", got)
	}
	if rec := alice.record(made.Receipt.Operation()); rec.Digest != pending.Digest || rec.State != connector.StateApplied {
		t.Errorf("the ledger has %s with another digest", rec.State)
	}
	if author, _ := got.Author.Get(); author != "alice" {
		t.Errorf("author %q", author)
	}
	alice.counts("in the end", 1, 1)
}
