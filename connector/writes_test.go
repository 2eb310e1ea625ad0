package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

const draft = `{"title":"printer on fire"}`

// Guarantee: RUN1, TIX5
func TestWriteWaitsForAPersonAndShowsWhatWouldBeSent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.call("desk.create", draft)
	if code(r) != "APPROVAL_REQUIRED" || r.Error.Next != connector.NextApprove || r.Pending == nil {
		t.Fatalf("result = %+v, want APPROVAL_REQUIRED with what is pending", r)
	}
	p := r.Pending
	got := []string{p.Method, p.Path, p.ContentType, p.Body, p.Summary, fmt.Sprint(p.Notes), string(p.Approval)}
	want := []string{"POST", "/notes", "application/json", draft, "create a note", "[the desk mails its owner]", string(r.Error.Approval)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if p.Digest == "" || p.ExpiresAt.IsZero() || r.Effect.Operation == "" {
		t.Errorf("pending lacks a digest, an expiry or the operation: %+v", r)
	}
	again := h.call("desk.create", draft)
	if again.Effect.Operation != r.Effect.Operation || again.Pending.Digest != p.Digest {
		t.Errorf("the second proposal is operation %s, want %s again", again.Effect.Operation, r.Effect.Operation)
	}
	if n := h.seen()["plan"]; n != 1 {
		t.Errorf("Plan ran %d times for two calls, want 1", n)
	}
	if n := len(h.provider.writes()); n != 0 {
		t.Errorf("%d writes were sent, want 0", n)
	}
}

// Guarantee: TIX5, TIX6, CON6
func TestApprovedWriteIsSentOnceAndProven(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.approve(draft)
	first := h.call("desk.create", draft)
	if first.Status != connector.StatusSuccess || first.Effect != (connector.EffectReport{Disposition: connector.DispositionApplied, Operation: id}) {
		t.Fatalf("result = %s %s %+v, want success and applied", first.Status, code(first), first.Effect)
	}
	r := first.Receipt
	got := []string{string(r.Operation()), r.ExternalID(), string(r.Proof()), r.How(), string(first.Data)}
	want := []string{string(id), "n1", "committed", "answer", `{"id":"n1","title":"printer on fire"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("receipt and data (-want +got):\n%s", diff)
	}
	again := h.call("desk.create", draft)
	if !again.Replayed || text(t, again.Receipt) != text(t, r) || string(again.Data) != string(first.Data) {
		t.Errorf("replay = %s, want the first answer again", text(t, again))
	}
	if first.Replayed {
		t.Error("the first answer says that it was replayed")
	}
	if sent, applied := len(h.provider.writes()), h.provider.applied(); sent != 1 || applied != 1 {
		t.Errorf("sent %d, applied %d; want 1 and 1", sent, applied)
	}
	if n := h.seen()["plan"]; n != 0 {
		t.Errorf("Plan ran %d times after the approval, want 0", n)
	}
	w := h.provider.writes()[0]
	if w.OperationID != id || w.DedupeHeader != "Operation-Id" {
		t.Errorf("sent with key %s=%s, want Operation-Id=%s", w.DedupeHeader, w.OperationID, id)
	}
}

// Guarantee: TIX6
func TestVerifiedReceiptIsReadBackAndCompared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		changes []connector.Change
		status  connector.Status
	}{
		{"stored as sent", nil, connector.StatusSuccess},
		{"stored otherwise", []connector.Change{{Pointer: "/title", Sent: "printer on fire", Stored: "Printer"}}, connector.StatusPartial},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.toy.steps.Verify = func(ctx context.Context, a *connector.Access, n note, in createIn) ([]connector.Change, error) {
				if s := h.ledger.state(h.ledger.only()); s != connector.StateApplied {
					t.Errorf("read back while the ledger says %s, want applied first", s)
				}
				_, _, err := connector.Get[note](ctx, a, connector.Request{Path: "/notes/" + n.ID})
				return c.changes, err
			}
			r := h.create(draft)
			if r.Status != c.status || r.Receipt.Proof() != connector.ProofVerified {
				t.Errorf("result = %s, proof %s; want %s, verified", r.Status, r.Receipt.Proof(), c.status)
			}
			if diff := cmp.Diff(c.changes, r.Receipt.Differences()); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			var states []connector.OperationState
			for _, o := range h.ledger.outcomes() {
				states = append(states, o.State)
			}
			if diff := cmp.Diff([]connector.OperationState{connector.StateApplied, connector.StateApplied}, states); diff != "" {
				t.Errorf("recorded outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

// Guarantee: TIX5, TIX6
// Case: T05
func TestFailedReadBackWeakensTheReceiptAndNotTheEffect(t *testing.T) {
	t.Parallel()
	for name, verify := range map[string]func(ctx context.Context, a *connector.Access, n note, _ createIn) ([]connector.Change, error){
		"rate limited": func(ctx context.Context, a *connector.Access, n note, _ createIn) ([]connector.Change, error) {
			_, _, err := connector.Get[note](ctx, a, connector.Request{Path: "/notes/" + n.ID})
			return nil, err
		},
		"panics": func(context.Context, *connector.Access, note, createIn) ([]connector.Change, error) { panic("no") },
		"unknown write": func(context.Context, *connector.Access, note, createIn) ([]connector.Change, error) {
			return nil, &connector.Error{Code: connector.CodeUnavailable, Effect: connector.DispositionNotApplied}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.toy.steps.Verify = verify
			h.provider.scriptReads(func(context.Context, connector.Request) (connector.Response, error) {
				return answer(http.StatusForbidden, `{"message":"secondary rate limit"}`), nil
			})
			r := h.create(draft)
			if r.Effect.Disposition != connector.DispositionApplied || r.Error != nil || r.Receipt.Proof() != connector.ProofCommitted {
				t.Errorf("result = %s", text(t, r))
			}
			h.call("desk.create", draft)
			if n := len(h.provider.writes()); n != 1 {
				t.Errorf("sent %d times, want 1", n)
			}
		})
	}
}

// Guarantee: TIX6, RUN4
// Case: T06
func TestUnreadableSuccessAnswer(t *testing.T) {
	t.Parallel()
	lenient := func(r connector.Response) (note, error) {
		var n struct{ ID string }
		if err := json.Unmarshal(r.Body, &n); err != nil {
			return note{}, err
		}
		return note{ID: n.ID}, errors.New("priority is an object")
	}
	for _, c := range []struct {
		name        string
		status      int
		body        string
		decode      func(connector.Response) (note, error)
		want        connector.Status
		disposition connector.Disposition
		proof       connector.Proof
	}{
		{"id without the rest", 201, `{"id":"n9","priority":{"new":"shape"}}`, lenient, connector.StatusPartial, connector.DispositionApplied, connector.ProofCommitted},
		{"accepted for later", 202, `{"id":"n9","title":"x"}`, connector.DecodeJSON[note], connector.StatusSuccess, connector.DispositionApplied, connector.ProofAccepted},
		{"no id", 201, `{"title":"x"}`, connector.DecodeJSON[note], connector.StatusUnknown, connector.DispositionUnknown, ""},
		{"empty id", 200, `{"id":"","title":"x"}`, connector.DecodeJSON[note], connector.StatusUnknown, connector.DispositionUnknown, ""},
		{"no body", 204, ``, connector.DecodeJSON[note], connector.StatusUnknown, connector.DispositionUnknown, ""},
		{"HTML", 200, `<html>login</html>`, connector.DecodeJSON[note], connector.StatusUnknown, connector.DispositionUnknown, ""},
		{"decode panics", 201, `{"id":"n9"}`, func(connector.Response) (note, error) { panic("shape") }, connector.StatusUnknown, connector.DispositionUnknown, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.toy.steps.Decode = c.decode
			h.provider.script(func(_ context.Context, apply func() connector.Response) (connector.Response, error) {
				apply()
				return answer(c.status, c.body), nil
			})
			r := h.create(draft)
			if r.Status != c.want || r.Effect.Disposition != c.disposition {
				t.Errorf("result = %s %s, want %s %s", r.Status, r.Effect.Disposition, c.want, c.disposition)
			}
			if c.proof == "" {
				if r.Receipt != nil || code(r) != "OUTCOME_UNKNOWN" || r.Error.Next != connector.NextLookUpOperation {
					t.Errorf("unproven write answered %s", text(t, r))
				}
			} else if r.Receipt == nil || r.Receipt.Proof() != c.proof || r.Receipt.ExternalID() != "n9" {
				t.Errorf("receipt = %s, want %s of n9", text(t, r.Receipt), c.proof)
			}
			if c.want == connector.StatusPartial {
				want := []connector.Missing{{What: "data", Reason: "unread_field"}}
				if diff := cmp.Diff(want, r.Coverage.Missing); diff != "" || r.Data != nil {
					t.Errorf("missing (-want +got), data %s:\n%s", r.Data, diff)
				}
			}
			h.call("desk.create", draft)
			if n := len(h.provider.writes()); n != 1 {
				t.Errorf("sent %d times, want 1", n)
			}
		})
	}
}

// Guarantee: CON4, TIX6
func TestWriteOutputThatBreaksItsSchemaIsNotPassedOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.toy.edit = func(c *connector.Connector) {
		s := spec("desk.create", connector.EffectCompensable)
		s.Output = []byte(`{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"},"title":{"type":"string","maxLength":3}}}`)
		c.Operations[2] = connector.Write(s, h.toy.steps)
	}
	r := h.create(draft)
	if r.Data != nil || r.Effect.Disposition != connector.DispositionApplied || r.Status != connector.StatusPartial {
		t.Errorf("result = %s, want applied without data", text(t, r))
	}
	if leaks(text(t, r), "printer") {
		t.Errorf("the refused output got out: %s", text(t, r))
	}
}

// Guarantee: RUN4, TIX5, NET8
func TestEveryStatusOfAWriteIsSortedByWhatItProves(t *testing.T) {
	t.Parallel()
	codes := map[int]string{
		400: "INVALID_INPUT", 401: "CONNECTION_REQUIRED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "CONFLICT", 410: "GONE",
		412: "CONFLICT", 413: "INVALID_INPUT", 422: "INVALID_INPUT", 429: "RATE_LIMITED", 307: "MOVED", 308: "MOVED",
	}
	h := newHarness(t)
	for status := 200; status <= 599; status++ {
		want, disposition, state := "OUTCOME_UNKNOWN", connector.DispositionUnknown, connector.StateUnknown
		switch {
		case status <= 299:
			want, disposition, state = "", connector.DispositionApplied, connector.StateApplied
		case codes[status] != "":
			want, disposition, state = codes[status], connector.DispositionNotApplied, connector.StateRejected
		case status >= 400 && status <= 499 && status != http.StatusRequestTimeout:
			want, disposition, state = "PROVIDER_CONTRACT", connector.DispositionNotApplied, connector.StateRejected
		}
		if status == 401 || status == 429 {
			state = connector.StateNotSent // nobody looked at the payload; the approval stands
		}
		h.provider.script(func(context.Context, func() connector.Response) (connector.Response, error) {
			return answer(status, `{"id":"n1","title":"secret provider text"}`), nil
		})
		arguments := fmt.Sprintf(`{"title":"answered %d"}`, status)
		id := h.approve(arguments)
		r := h.call("desk.create", arguments)
		if code(r) != want || r.Effect.Disposition != disposition || h.ledger.state(id) != state {
			t.Errorf("%d: %s %s, ledger %s; want %q %s, %s", status, code(r), r.Effect.Disposition, h.ledger.state(id), want, disposition, state)
		}
		if r.Effect.Operation != id {
			t.Errorf("%d: operation %q, want %q", status, r.Effect.Operation, id)
		}
		if r.Error != nil && leaks(text(t, r), "secret provider text") {
			t.Errorf("%d: the provider's text is in the result", status)
		}
		if (r.Status == connector.StatusUnknown) != (disposition == connector.DispositionUnknown) {
			t.Errorf("%d: status %s with effect %s", status, r.Status, disposition)
		}
	}
}

// Guarantee: RUN4, NET8
func TestEveryStatusOfARead(t *testing.T) {
	t.Parallel()
	codes := map[int]string{
		400: "INVALID_INPUT", 401: "CONNECTION_REQUIRED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 408: "UNAVAILABLE", 409: "CONFLICT",
		410: "GONE", 412: "CONFLICT", 413: "INVALID_INPUT", 422: "INVALID_INPUT", 429: "RATE_LIMITED", 307: "MOVED", 308: "MOVED",
	}
	h := newHarness(t)
	h.toy.get = func(ctx context.Context, a *connector.Access, _ getIn) (note, error) {
		_, err := a.Get(ctx, connector.Request{Path: "/notes/n1"})
		return note{"n1", "one"}, err
	}
	for status := 200; status <= 599; status++ {
		want := codes[status]
		switch {
		case status <= 299 || status == http.StatusNotModified:
		case want == "" && status >= 500:
			want = "UNAVAILABLE"
		case want == "":
			want = "PROVIDER_CONTRACT"
		}
		h.provider.scriptReads(func(context.Context, connector.Request) (connector.Response, error) {
			return answer(status, `{"message":"secret provider text"}`), nil
		})
		r := h.call("desk.get", `{"id":"n1"}`)
		if code(r) != want || r.Effect.Disposition != connector.DispositionNone || r.Status == connector.StatusUnknown {
			t.Errorf("%d: %s %s %s, want %q and no effect", status, r.Status, code(r), r.Effect.Disposition, want)
		}
		if leaks(text(t, r), "secret provider text") {
			t.Errorf("%d: the provider's text is in the result", status)
		}
	}
}

// Guarantee: TIX5, RUN9
func TestTransportErrorSaysWhatIsProven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   connector.Code
		effect connector.Disposition
		state  connector.OperationState
		want   connector.Code
		again  int // writes at the provider after the same call is made once more
	}{
		{connector.CodeUnavailable, connector.DispositionNone, connector.StateUnknown, connector.CodeOutcomeUnknown, 0},
		{connector.CodeUnavailable, connector.DispositionNotApplied, connector.StateNotSent, connector.CodeUnavailable, 1},
		{connector.CodeOverloaded, connector.DispositionNone, connector.StateUnknown, connector.CodeOutcomeUnknown, 0},
		{connector.CodeDeadline, connector.DispositionNone, connector.StateUnknown, connector.CodeOutcomeUnknown, 0},
		{connector.CodeOverloaded, connector.DispositionNotApplied, connector.StateNotSent, connector.CodeOverloaded, 1},
		{connector.CodeEgressBlocked, connector.DispositionNotApplied, connector.StateNotSent, connector.CodeEgressBlocked, 0},
		{connector.CodeCanceled, connector.DispositionNotApplied, connector.StateNotSent, connector.CodeCanceled, 1},
		{connector.CodeEgressBlocked, connector.DispositionNone, connector.StateUnknown, connector.CodeOutcomeUnknown, 0},
		{connector.CodeTooLarge, connector.DispositionUnknown, connector.StateUnknown, connector.CodeOutcomeUnknown, 0},
		{connector.CodeUnavailable, connector.DispositionUnknown, connector.StateUnknown, connector.CodeOutcomeUnknown, 0},
		{connector.CodeDeadline, connector.DispositionUnknown, connector.StateUnknown, connector.CodeOutcomeUnknown, 0},
		{connector.CodeProviderContract, connector.DispositionApplied, connector.StateUnknown, connector.CodeOutcomeUnknown, 0},
	} {
		t.Run(fmt.Sprint(c.code, " ", c.effect), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.provider.script(func(context.Context, func() connector.Response) (connector.Response, error) {
				return connector.Response{}, &connector.Error{Code: c.code, Effect: c.effect, Err: errors.New("dial tcp 10.0.0.7:443")}
			})
			id := h.approve(draft)
			r := h.call("desk.create", draft)
			if code(r) != c.want.String() || h.ledger.state(id) != c.state || r.Effect.Operation != id {
				t.Errorf("result = %s, ledger %s; want %s, %s", text(t, r), h.ledger.state(id), c.want, c.state)
			}
			unknown := c.state == connector.StateUnknown
			if unknown != (r.Effect.Disposition == connector.DispositionUnknown) || !unknown && r.Effect.Disposition != connector.DispositionNotApplied {
				t.Errorf("effect = %s in state %s", r.Effect.Disposition, c.state)
			}
			if leaks(text(t, r), "10.0.0.7") {
				t.Errorf("an address is in the result: %s", text(t, r))
			}
			h.provider.script(nil)
			second := h.call("desk.create", draft)
			if got := h.provider.applied(); got != c.again {
				t.Errorf("%d writes at the provider after a second call (%s), want %d", got, code(second), c.again)
			}
			if c.again == 1 && second.Effect.Operation != id {
				t.Errorf("tried again as %s, want the same operation %s", second.Effect.Operation, id)
			}
		})
	}
}

// Guarantee: TIX5
func TestOutcomeThatCannotBeRecordedIsUnknown(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(context.Context, func() connector.Response) (connector.Response, error){
		"applied": nil,
		"refused": func(context.Context, func() connector.Response) (connector.Response, error) {
			return answer(422, `{}`), nil
		},
		"lost": lost(true),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.provider.script(script)
			id := h.approve(draft)
			h.ledger.failFinish = errors.New("disk full at /var/lib/db")
			r := h.call("desk.create", draft)
			if r.Status != connector.StatusUnknown || code(r) != "OUTCOME_UNKNOWN" || r.Effect.Operation != id || r.Receipt != nil {
				t.Errorf("result = %s, want an unknown outcome", text(t, r))
			}
			if leaks(text(t, r), "disk full", "/var/lib") {
				t.Errorf("the store's error is in the result: %s", text(t, r))
			}
			if r := h.call("desk.create", draft); r.Status != connector.StatusUnknown {
				t.Errorf("second call ended as %s, want unknown while the row says dispatching", r.Status)
			}
			if n := len(h.provider.writes()); n != 1 {
				t.Errorf("sent %d times, want 1", n)
			}
		})
	}
}

// Guarantee: TIX5, RUN1
func TestStoredBytesThatChangedAfterApprovalAreNotSent(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(*row){
		"body":             func(r *row) { r.Request.Body[10] ^= 1 },
		"method":           func(r *row) { r.Request.Method = http.MethodPut },
		"path":             func(r *row) { r.Request.Path = "/admins" },
		"query":            func(r *row) { r.Request.Query.Set("notify", "all") },
		"content type":     func(r *row) { r.Request.ContentType = "text/plain" },
		"key":              func(r *row) { r.Request.OperationID = "op_other" },
		"key header":       func(r *row) { r.Request.DedupeHeader = "Authorization" },
		"resource version": func(r *row) { r.Request.ResourceVersion = "7" },
		"account":          func(r *row) { r.Account.Subject = "mallory" },
		"connection":       func(r *row) { r.Connection = "con-2" },
		"digest":           func(r *row) { r.Digest = "00" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			id := h.approve(draft)
			h.ledger.change(id, tamper)
			if name == "connection" { // or the row would not be found at all
				h.changeConnection(func(c *connector.Connection) { c.ID = "con-2" })
			}
			r := h.call("desk.create", draft)
			if code(r) != "APPROVAL_MISMATCH" || r.Effect.Disposition != connector.DispositionNone {
				t.Errorf("result = %s %s, want APPROVAL_MISMATCH and no effect", code(r), r.Effect.Disposition)
			}
			if n := len(h.provider.writes()); n != 0 {
				t.Errorf("sent %d times, want 0", n)
			}
			if s := h.ledger.state(id); s != connector.StateNotSent {
				t.Errorf("ledger says %s, want not_sent", s)
			}
		})
	}
}

// Guarantee: TIX5
func TestApprovalDiesWithTheAuthorizationItWasGivenUnder(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.approve(draft)
	h.changeConnection(func(c *connector.Connection) { c.AuthzVersion++ })
	if r := h.call("desk.create", draft); code(r) != "APPROVAL_MISMATCH" || len(h.provider.writes()) != 0 {
		t.Errorf("result = %s with %d writes sent, want APPROVAL_MISMATCH and none", code(r), len(h.provider.writes()))
	}
}

// Guarantee: TIX5
func TestApprovalOfAnotherConnectorVersionIsNotUsed(t *testing.T) {
	t.Parallel()
	old, upgraded := newHarness(t), newHarness(t)
	id := old.approve(draft)
	upgraded.config.Operations = old.ledger
	upgraded.toy.edit = func(c *connector.Connector) { c.Version = "1.3.0" }
	// A person has to read what the new version would send.
	if r := upgraded.call("desk.create", draft); code(r) != "APPROVAL_REQUIRED" || r.Effect.Operation == id {
		t.Errorf("result = %s, want another operation than %s", text(t, r), id)
	}
	if n := len(upgraded.provider.writes()); n != 0 {
		t.Errorf("sent %d times, want 0", n)
	}
	if s := old.ledger.state(id); s != connector.StateNotSent {
		t.Errorf("ledger says %s, want not_sent: its approval is of no use", s)
	}
	if r := upgraded.call("desk.create", `{"title":"something else"}`); code(r) != "APPROVAL_REQUIRED" {
		t.Errorf("result = %s", text(t, r))
	}
}

// Guarantee: TIX5, RUN3
func TestSameIntentWithAnotherPayloadIsAConflict(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	intend := func(arguments string) connector.Result {
		return h.execute(t.Context(), connector.Call{Tool: "desk.create", Intent: "step-9", Arguments: []byte(arguments)})
	}
	first := intend(draft)
	other := intend(`{"title":"something else"}`)
	if code(other) != "CONFLICT" || other.Effect.Operation != first.Effect.Operation || other.Pending != nil {
		t.Errorf("other payload = %s, want CONFLICT with operation %s", text(t, other), first.Effect.Operation)
	}
	h.ledger.approve(first.Effect.Operation)
	if r := intend(`{"title":"something else"}`); code(r) != "CONFLICT" || len(h.provider.writes()) != 0 {
		t.Errorf("other payload after the approval = %s, %d writes", code(r), len(h.provider.writes()))
	}
	if r := intend(draft); r.Status != connector.StatusSuccess {
		t.Errorf("the approved payload ended as %s %s", r.Status, code(r))
	}
	if r := intend(`{"title":"something else"}`); code(r) != "CONFLICT" || r.Receipt != nil {
		t.Errorf("other payload after the write = %s, want CONFLICT", text(t, r))
	}
}

// Guarantee: TIX5
func TestOperationIsTheMeaningOfItsArguments(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	base := h.call("desk.create", `{"title":"a","body":"b","severity":2,"labels":["x","y"]}`).Effect.Operation
	for arguments, same := range map[string]bool{
		`{"labels":["x","y"],"severity":2,"body":"b","title":"a"}`:                          true,
		" {\n\"title\" : \"a\",\t\"body\":\"b\",\"severity\":2,\"labels\":[\"x\", \"y\"]} ": true,
		`{"title":"\u0061","body":"b","severity":2.0,"labels":["x","y"]}`:                   true,
		`{"title":"a ","body":"b","severity":2,"labels":["x","y"]}`:                         false,
		`{"title":"A","body":"b","severity":2,"labels":["x","y"]}`:                          false,
		`{"title":"a","body":"b","severity":3,"labels":["x","y"]}`:                          false,
		`{"title":"a","body":"b","severity":2,"labels":["y","x"]}`:                          false,
		`{"title":"a","body":"b","severity":2,"labels":[]}`:                                 false,
		`{"title":"a","body":"b","severity":2}`:                                             false,
		`{"title":"b","body":"a","severity":2,"labels":["x","y"]}`:                          false,
	} {
		if got := h.call("desk.create", arguments).Effect.Operation; (got == base) != same || got == "" {
			t.Errorf("%s is operation %s beside %s; want the same: %t", arguments, got, base, same)
		}
	}
	bob := connector.Caller{Tenant: "acme", Principal: "bob"}
	h.changeConnection(func(c *connector.Connection) { c.Principal = "bob" })
	r := h.runtime().Execute(t.Context(), bob, connector.Call{Tool: "desk.create", Arguments: []byte(`{"title":"a","body":"b","severity":2,"labels":["x","y"]}`)})
	if r.Effect.Operation == base {
		t.Error("another principal's write is the same operation")
	}
}

// Guarantee: TIX5
func TestTwentyIdenticalCallsAtOnceAreOneWrite(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.approve(draft)
	results := make(chan connector.Result, 20)
	for range 20 {
		go func() { results <- h.call("desk.create", draft) }()
	}
	receipts := map[string]bool{}
	for range 20 {
		r := <-results
		if r.Effect.Disposition == connector.DispositionNotApplied {
			t.Errorf("one of them says not applied: %s", text(t, r))
		}
		if r.Receipt != nil {
			receipts[text(t, r.Receipt)] = true
		}
	}
	if sent, applied := len(h.provider.writes()), h.provider.applied(); sent != 1 || applied != 1 || len(receipts) != 1 {
		t.Errorf("sent %d, applied %d, %d different receipts; want 1 each", sent, applied, len(receipts))
	}
}

// Guarantee: RUN1
func TestPlanCannotDressAReadAsAWrite(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"", "GET", "HEAD", "TRACE", "CONNECT", "post"} {
		h := newHarness(t)
		h.toy.steps.Plan = func(context.Context, *connector.Access, createIn) (connector.Request, error) {
			return connector.Request{Method: method, Path: "/notes"}, nil
		}
		if r := h.call("desk.create", draft); code(r) != "INTERNAL" || len(h.ledger.rows) != 0 {
			t.Errorf("method %q: %s and %d operations, want INTERNAL and none", method, code(r), len(h.ledger.rows))
		}
	}
}
