package kit

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// writeChecks compare each write with the provider's own books and with the
// requests that came over the wire.
var writeChecks = []check{
	{"E1", "TIX4", "Without an approval nothing is sent, and a person is shown what would be.", "", []string{"A1"}, proposalSendsNothing},
	{"W0", "TIX6", "An approved write makes one object, and its receipt names it.", "", []string{"E1"}, approvedOnce},
	{"E2", "TIX4", "An approval covers its bytes: with one changed, nothing is sent.", "", []string{"W0"}, changedByte},
	{"E3", "TIX4", "An approval is of one principal, is used once, and a denied one sends nothing.", "", []string{"W0"}, approvalIsBound},
	{"E4", "TIX5", "When the answer is lost, the outcome is unknown: not failed, and not sent again.", "", []string{"W0"}, lostAnswer},
	{"E5", "TIX5", "The look-up finds the write whose answer was lost, and nothing is sent for it.", "", []string{"E4"}, lostAnswerSettles},
	{"E6", "TIX5", "What never left was not sent: the same operation goes out later, once.", "", []string{"W0"}, refusedConnection},
	{"E8", "TIX5", "A server error after the commit is unknown, and settles as made.", "", []string{"W0"}, errorAfterCommit},
	{"E7", "TIX5", "A server error before the commit settles as not made, and only when that is sure.", "", []string{"E8"}, errorBeforeCommit},
	{"E9", "TIX5", "Twenty identical calls at once make one object.", "", []string{"W0"}, twentyAtOnce},
	{"E10", "TIX5", "While the provider's index lags, the look-up doesn't say that there is nothing.", "", []string{"E4"}, lookUpBehindIndex},
	{"E11", "TIX6", "A success that can't be read is not a failed write.", "", []string{"W0"}, unreadableSuccess},
	{"E12", "TIX4", "A plan depends on its input and operation id alone.", "", []string{"E1"}, planIsDeterministic},
	{"E13", "TIX5", "One intent stands for one payload: another one under it is refused.", "", []string{"W0"}, intentIsOnePayload},
	{"E14", "TIX7", "The way that repeats are said to be recognised is there: the same request twice makes one object.", "", []string{"W0"}, repeatsAreRecognised},
	{"E15", "TIX6", "A success without an id proves nothing.", "", []string{"W0"}, successWithoutID},
	{"E16", "TIX5", "A look-up finds the write that it was asked for, not its neighbour.", "", []string{"E5"}, lookUpKnowsItsOwn},
	{"E17", "TIX5", "A look-up that fails says nothing about the write.", "", []string{"E4"}, failedLookUp},
	{"E18", "TIX6", "A refusal by the provider is a write that did not happen, and no more.", "", []string{"W0"}, refusedWrite},
}

func proposalSendsNothing(t *trial) {
	t.uses(t.subject.Write, "write")
	a := t.owner()
	before := len(t.changes())
	r := a.write(t.marker)
	if code(r) != connector.CodeApprovalRequired || r.Effect.Disposition != connector.DispositionNone || r.Pending == nil {
		t.errorf("the proposal answered %s", says(r))
	} else if p := r.Pending; reads(p.Method) || p.Path == "" || p.Digest == "" || p.Summary == "" ||
		!strings.Contains(p.Body+p.Path+p.Query, t.marker) {
		t.errorf("what waits for a person does not show what will be sent")
	}
	a.write(t.marker)
	t.counts("proposed twice", t.marker, 0, 0)
	if n := len(t.changes()) - before; n != 0 {
		t.errorf("%d requests to change something came", n)
	}
}

// changes are all requests other than reads.
func (t *trial) changes() (out []fault.Exchange) {
	for _, e := range t.house.proxy.Seen() {
		if !reads(e.Method) {
			out = append(out, e)
		}
	}
	return out
}

func approvedOnce(t *trial) {
	a := t.owner()
	pending := a.approved(t.marker)
	r := a.write(t.marker)
	if !looked(r) || r.Effect.Disposition != connector.DispositionApplied || r.Receipt == nil {
		t.fatalf("the approved call answered %s", says(r))
	}
	if r.Receipt.ExternalID() == "" || r.Receipt.Proof() == connector.ProofAccepted {
		t.errorf("the receipt names %q, %s", r.Receipt.ExternalID(), r.Receipt.Proof())
	}
	t.counts("approved", t.marker, 1, 1)
	if sent := t.sent(t.marker); len(sent) == 1 && (string(sent[0].Body) != pending.Body || sent[0].Method != pending.Method) {
		t.errorf("what was sent is not what was approved")
	}
}

func changedByte(t *trial) {
	a := t.owner()
	a.approved(t.marker)
	r := a.write(t.marker + "x")
	if code(r) != connector.CodeApprovalRequired {
		t.errorf("another payload answered %s", says(r))
	}
	t.counts("changed", t.marker, 0, 0)
}

func approvalIsBound(t *trial) {
	a, other := t.owner(), t.connect("other", Owner, Wish{})
	a.approved(t.marker)
	if r := other.write(t.marker); code(r) != connector.CodeApprovalRequired {
		t.errorf("another principal's call answered %s", says(r))
	}
	t.counts("by another principal", t.marker, 0, 0)
	first, second := a.write(t.marker), a.write(t.marker)
	if !second.Replayed || second.Receipt == nil || first.Receipt == nil || second.Receipt.ExternalID() != first.Receipt.ExternalID() {
		t.errorf("the repeated call answered %s", says(second))
	}
	t.counts("called twice", t.marker, 1, 1)

	denied := t.marker + "no"
	r := a.write(denied)
	if r.Pending == nil {
		t.fatalf("a proposal answered %s", says(r))
	}
	_, err := t.house.ledger.Deny(t.ctx, a.caller.Tenant, string(r.Pending.Approval), "maria", "no")
	t.must(err)
	if r := a.write(denied); r.Effect.Disposition == connector.DispositionApplied {
		t.errorf("after the denial the call answered %s", says(r))
	}
	t.counts("denied", denied, 0, 0)
}

// lost makes a write whose answer never came back.
func (t *trial) lost(a *account, marker string, r fault.Rule) connector.Result {
	a.approved(marker)
	t.onWrites(r)
	result := a.write(marker)
	if result.Status != connector.StatusUnknown || code(result) != connector.CodeOutcomeUnknown ||
		result.Effect.Disposition != connector.DispositionUnknown || result.Effect.Operation == "" {
		t.fatalf("%s: answered %s", r.Action, says(result))
	}
	return result
}

func lostAnswer(t *trial) {
	for _, action := range []fault.Action{fault.LoseAnswer, fault.CutAfterHeaders} {
		marker := t.marker + strings.ReplaceAll(action.String(), " ", "")
		a := t.owner1(action.String())
		t.lost(a, marker, fault.Rule{Action: action})
		t.counts(action.String(), marker, 1, 1)
		again := a.write(marker)
		if again.Status != connector.StatusUnknown && again.Effect.Disposition != connector.DispositionApplied {
			t.errorf("%s: called again, it answered %s", action, says(again))
		}
		t.counts(action.String()+", called again", marker, 1, 1)
	}
}

// owner1 is the owner under another name.
func (t *trial) owner1(name string) *account {
	return t.connect(strings.ReplaceAll(name, " ", "-"), Owner, Wish{})
}

func lostAnswerSettles(t *trial) {
	a := t.owner()
	r := t.lost(a, t.marker, fault.Rule{Action: fault.LoseAnswer})
	if rec := a.settle(r); rec.State != connector.StateApplied {
		t.errorf("it settled as %s: %s", rec.State, rec.Reason)
	}
	t.counts("settled", t.marker, 1, 1)
}

func refusedConnection(t *trial) {
	a := t.owner()
	a.approved(t.marker)
	// The path is asked at the address of a server that has just closed.
	t.house.profile.move(closedAddress(t))
	r := a.write(t.marker)
	if r.Effect.Disposition != connector.DispositionNotApplied && r.Effect.Disposition != connector.DispositionNone || r.Status != connector.StatusError {
		t.errorf("nothing listens, and the call answered %s", says(r))
	}
	t.house.profile.move(t.house.base())
	t.counts("nothing listened", t.marker, 0, 0)
	again := a.write(t.marker)
	if again.Effect.Disposition != connector.DispositionApplied || r.Effect.Operation != "" && again.Effect.Operation != r.Effect.Operation {
		t.errorf("the next call answered %s, under operation %s", says(again), again.Effect.Operation)
	}
	t.counts("the provider is back", t.marker, 1, 1)
}

func errorBeforeCommit(t *trial) {
	a := t.owner()
	r := t.lost(a, t.marker, fault.Rule{Action: fault.Answer, Status: http.StatusInternalServerError, Body: []byte(`{"error":"fault"}`)})
	t.counts("before the commit", t.marker, 0, 1)
	rec := a.settle(r)
	if rec.State == connector.StateUnknown {
		t.counts("unsettled", t.marker, 0, 1)
		t.notClaimed("the look-up proves no absence, a person decides: %s", rec.Reason)
	}
	if rec.State != connector.StateRejected {
		t.errorf("it settled as %s: %s", rec.State, rec.Reason)
	}
	t.counts("settled", t.marker, 0, 1)
}

func errorAfterCommit(t *trial) {
	a := t.owner()
	r := t.lost(a, t.marker, fault.Rule{Action: fault.Replace, Status: http.StatusInternalServerError, Body: []byte(`{"error":"fault"}`)})
	if rec := a.settle(r); rec.State != connector.StateApplied {
		t.errorf("it settled as %s: %s", rec.State, rec.Reason)
	}
	t.counts("after the commit", t.marker, 1, 1)
}

func twentyAtOnce(t *trial) {
	a := t.owner()
	a.approved(t.marker)
	var all sync.WaitGroup
	results := make([]connector.Result, 20)
	for i := range results {
		all.Go(func() { results[i] = a.write(t.marker) })
	}
	all.Wait()
	applied := 0
	for _, r := range results {
		if r.Effect.Disposition == connector.DispositionApplied {
			applied++
		}
	}
	if applied == 0 {
		t.errorf("none of them says that it was applied")
	}
	t.counts("twenty at once", t.marker, 1, 1)
}

func lookUpBehindIndex(t *trial) {
	p, ok := t.house.provider.(Lagging)
	if !ok {
		t.notClaimed("the harness can't make the provider's index lag")
	}
	t.must(p.Lag(true))
	defer func() { t.must(p.Lag(false)) }()
	a := t.owner()
	r := t.lost(a, t.marker, fault.Rule{Action: fault.LoseAnswer})
	if rec := a.settle(r); rec.State != connector.StateApplied && rec.State != connector.StateUnknown {
		t.errorf("the write is there, and it settled as %s: %s", rec.State, rec.Reason)
	}
}

func unreadableSuccess(t *trial) {
	for _, c := range [][2]string{{"half", `{"id": "1`}, {"page", `<html>done</html>`}} {
		name, body := c[0], c[1]
		marker := t.marker + name
		a := t.owner1(name)
		a.approved(marker)
		t.onWrites(fault.Rule{Action: fault.Replace, Status: http.StatusCreated, Body: []byte(body)})
		r := a.write(marker)
		if d := r.Effect.Disposition; d != connector.DispositionApplied && d != connector.DispositionUnknown {
			t.errorf("%s: answered %s", name, says(r))
		}
		t.counts(name, marker, 1, 1)
	}
}

func planIsDeterministic(t *trial) {
	a := t.owner()
	first, second := a.writeAs(t.marker, "first-"+t.marker), a.writeAs(t.marker, "second-"+t.marker)
	if first.Pending == nil || second.Pending == nil {
		t.fatalf("proposals answered %s and %s", says(first), says(second))
	}
	if a, b := planned(t, first), planned(t, second); a != b {
		t.errorf("one input was planned in two ways:\n    %s\n    %s", a, b)
	}
}

// planned is a plan without its operation id, which each has of its own.
func planned(t *trial, r connector.Result) string {
	p := *r.Pending
	card, err := json.Marshal([]any{p.Method, p.Path, p.Query, p.ContentType, p.Body, p.Summary, p.Notes})
	t.must(err)
	all, err := t.house.ledger.Approval(t.ctx, "one", string(p.Approval))
	t.must(err)
	return strings.ReplaceAll(string(card), string(all.Operation), "OPERATION")
}

func intentIsOnePayload(t *trial) {
	a := t.owner()
	r := a.writeAs(t.marker, "intent-"+t.marker)
	if r.Pending == nil {
		t.fatalf("a proposal answered %s", says(r))
	}
	_, err := t.house.ledger.Approve(t.ctx, a.caller.Tenant, string(r.Pending.Approval), "maria")
	t.must(err)
	if other := a.writeAs(t.marker+"other", "intent-"+t.marker); other.Status != connector.StatusError ||
		other.Effect.Disposition == connector.DispositionApplied {
		t.errorf("another payload under the intent answered %s", says(other))
	}
	t.counts("another payload", t.marker, 0, 0)
	a.writeAs(t.marker, "intent-"+t.marker)
	t.counts("its own payload", t.marker, 1, 1)
}

func repeatsAreRecognised(t *trial) {
	for _, o := range t.subject.Connector.Operations {
		if o.Spec().Name == t.subject.Write.Tool {
			if k := o.Dedupe().Kind; k != connector.DedupeHeader && k != connector.DedupeField {
				t.notClaimed("the connector does not say that the provider recognises repeats")
			}
		}
	}
	a := t.owner()
	a.approved(t.marker)
	t.onWrites(fault.Rule{Action: fault.Duplicate})
	a.write(t.marker)
	t.counts("the same request twice", t.marker, 1, 1)
}

func successWithoutID(t *trial) {
	a := t.owner()
	a.approved(t.marker)
	t.onWrites(fault.Rule{Action: fault.Answer, Status: http.StatusCreated, Body: []byte(`{}`),
		Header: http.Header{"Content-Type": {"application/json"}}})
	r := a.write(t.marker)
	if r.Receipt != nil || r.Effect.Disposition == connector.DispositionApplied {
		t.errorf("answered %s, with a receipt: %t", says(r), r.Receipt != nil)
	}
}

func lookUpKnowsItsOwn(t *trial) {
	a := t.owner()
	r := t.lost(a, t.marker, fault.Rule{Action: fault.LoseAnswer})
	neighbour := a.made(t.marker + "neighbour")
	rec := a.settle(r)
	if rec.State != connector.StateApplied {
		t.fatalf("it settled as %s: %s", rec.State, rec.Reason)
	}
	var receipt struct {
		ExternalID string `json:"external_id"`
	}
	t.must(json.Unmarshal(rec.Receipt, &receipt))
	if receipt.ExternalID == neighbour {
		t.errorf("the look-up found %s, which another write made", neighbour)
	}
}

// made is the id of what an approved write made.
func (a *account) made(marker string) string {
	a.approved(marker)
	r := a.write(marker)
	if r.Receipt == nil {
		a.fatalf("an approved write answered %s", says(r))
	}
	return r.Receipt.ExternalID()
}

func failedLookUp(t *trial) {
	a := t.owner()
	r := t.lost(a, t.marker, fault.Rule{Action: fault.LoseAnswer})
	for _, status := range []int{http.StatusInternalServerError, http.StatusNotFound, http.StatusForbidden} {
		t.must(t.house.fresh())
		t.onReads(fault.Rule{Action: fault.Answer, Status: status, Times: fault.Forever, Body: []byte(`{"error":"fault"}`)})
		rec := a.settle(r)
		if rec.State != connector.StateUnknown && rec.State != connector.StateApplied {
			t.fatalf("the look-up was answered %d, and it settled as %s: %s", status, rec.State, rec.Reason)
		}
	}
}

func refusedWrite(t *trial) {
	a := t.owner()
	a.approved(t.marker)
	t.onWrites(fault.Rule{Action: fault.Answer, Status: http.StatusUnprocessableEntity, Body: []byte(`{"error":"invalid"}`)})
	r := a.write(t.marker)
	if r.Status != connector.StatusError || r.Effect.Disposition != connector.DispositionNotApplied {
		t.errorf("answered %s", says(r))
	}
	t.counts("refused", t.marker, 0, 1)
}
