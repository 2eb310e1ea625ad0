package connector_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestAClassifiedServerErrorIsNotSentAgain(t *testing.T) {
	h := newHarness(t)
	h.toy.classify = func(_ connector.Request, r connector.Response) *connector.Error {
		if r.Status >= 500 {
			return connector.Fail(connector.CodeUnavailable, "the desk is busy")
		}
		return nil
	}
	h.provider.script(func(_ context.Context, apply func() connector.Response) (connector.Response, error) {
		apply()
		return answer(502, `{}`), nil
	})
	r := h.create(draft)
	h.call("desk.create", draft)
	if r.Status != connector.StatusUnknown || h.provider.applied() != 1 {
		t.Errorf("status %s effect %s, %d writes at the provider", r.Status, r.Effect.Disposition, h.provider.applied())
	}
}

func TestAClassifiedErrorInA200ProvesNothing(t *testing.T) {
	h := newHarness(t)
	h.toy.classify = func(_ connector.Request, r connector.Response) *connector.Error {
		return connector.Fail(connector.CodeUnavailable, "errors in the answer")
	}
	h.provider.script(func(_ context.Context, apply func() connector.Response) (connector.Response, error) {
		apply()
		return answer(200, `{"errors":[1]}`), nil
	})
	r := h.create(draft)
	h.call("desk.create", draft)
	if r.Status != connector.StatusUnknown || h.provider.applied() != 1 {
		t.Errorf("status %s effect %s, %d writes at the provider", r.Status, r.Effect.Disposition, h.provider.applied())
	}
}

func TestAPanicOfClassifyInAWriteIsUnknown(t *testing.T) {
	h := newHarness(t)
	h.toy.classify = func(connector.Request, connector.Response) *connector.Error { panic("tok-4711") }
	r := h.create(draft)
	if r.Status != connector.StatusUnknown {
		t.Errorf("%s", text(t, r))
	}
}

func TestAnErrorWithoutProofIsNotSentAgain(t *testing.T) {
	for _, e := range []error{context.DeadlineExceeded, errors.New("EOF")} {
		h := newHarness(t)
		h.provider.script(func(_ context.Context, apply func() connector.Response) (connector.Response, error) {
			apply()
			return connector.Response{}, e
		})
		r := h.create(draft)
		h.call("desk.create", draft)
		if r.Status != connector.StatusUnknown || h.provider.applied() != 1 {
			t.Errorf("%v: status %s effect %s, %d writes at the provider", e, r.Status, r.Effect.Disposition, h.provider.applied())
		}
	}
}

func TestAnIntegerMayBeWrittenWithAPoint(t *testing.T) {
	h := newHarness(t)
	h.provider.seed("one")
	for tool, arguments := range map[string]string{"desk.get": `{"id":"n1","depth":5.0}`, "desk.search": `{"query":"","page_size":5.0,"cursor":null}`} {
		if r := h.call(tool, arguments); r.Error != nil && r.Error.Code != connector.CodeInvalidInput {
			t.Errorf("%s: %s", arguments, text(t, r.Error))
		}
	}
}

func TestAnyIsAnOpenSchema(t *testing.T) {
	type anyIn struct {
		ID string `json:"id"`
		X  any    `json:"x"`
	}
	type anyOut struct {
		X any `json:"x"`
	}
	h := newHarness(t)
	h.toy.edit = func(c *connector.Connector) {
		c.Operations[0] = connector.Read(spec("desk.get", connector.EffectRead), func(context.Context, *connector.Access, anyIn) (anyOut, error) {
			return anyOut{map[string]any{"private": "leak"}}, nil
		})
	}
	if err := connector.Lint(h.toy.connector(h.stages)); err == nil {
		r := h.call("desk.get", `{"id":"n1","x":{"tenant":"other","token":"t"}}`)
		t.Errorf("Lint accepts; %s", text(t, r.Data))
	}
}
func TestOpenSchemasDoNotLoad(t *testing.T) {
	for name, inner := range map[string]string{
		"true": `true`, "empty": `{}`, "only description": `{"description":"x"}`,
		"patternProperties": `{"type":"object","additionalProperties":false,"patternProperties":{".*":{"type":"string"}}}`,
	} {
		s := spec("desk.get", connector.EffectRead)
		s.Input = fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"properties":{"id":%s,"depth":{"type":"integer"}}}`, inner)
		h := newHarness(t)
		h.toy.edit = func(c *connector.Connector) {
			c.Operations[0] = connector.Read(s, func(context.Context, *connector.Access, getIn) (note, error) { return note{}, nil })
		}
		if err := connector.Lint(h.toy.connector(h.stages)); err == nil {
			t.Errorf("%s loads", name)
		}
	}
}

func TestNoPropertyNameHidesAnOpenObject(t *testing.T) {
	for _, name := range []string{"default", "enum", "const", "examples"} {
		s := spec("desk.get", connector.EffectRead)
		s.Input = fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"properties":{"id":{"type":"object","additionalProperties":false,"properties":{%q:{"type":"object"}}},"depth":{"type":"integer"}}}`, name)
		h := newHarness(t)
		h.toy.edit = func(c *connector.Connector) {
			c.Operations[0] = connector.Read(s, func(context.Context, *connector.Access, getIn) (note, error) { return note{}, nil })
		}
		if err := connector.Lint(h.toy.connector(h.stages)); err == nil {
			t.Errorf("%s: an open object loads", name)
		}
	}
}

// F07
type propsIn struct {
	Properties string `json:"properties"`
}

func TestAPropertyMayBeCalledProperties(t *testing.T) {
	h := newHarness(t)
	h.toy.edit = read[propsIn](nil)
	if err := connector.Lint(h.toy.connector(h.stages)); err != nil {
		t.Errorf("%v", err)
	}
}

func TestASharedErrorOfClassifyIsNotWrittenTo(t *testing.T) {
	shared := connector.Fail(connector.CodeRateLimited, "slow down")
	h := newHarness(t)
	h.toy.classify = func(connector.Request, connector.Response) *connector.Error { return shared }
	h.create(draft)
	if r := h.call("desk.get", `{"id":"n1"}`); r.Effect.Operation != "" || r.Effect.Disposition != connector.DispositionNone {
		t.Errorf("a read reports another call's write: %+v", r.Effect)
	}
}

func TestAnApprovalCoversTheEndpointProfile(t *testing.T) {
	h := newHarness(t)
	h.approve(draft)
	h.changeConnection(func(c *connector.Connection) { c.Profile = "notes-us" })
	if r := h.call("desk.create", draft); code(r) != "APPROVAL_MISMATCH" || len(h.provider.writes()) != 0 {
		t.Errorf("%s, %d sent to another host profile", r.Status, len(h.provider.writes()))
	}
}

func TestAnAbsenceIsAsOldAsItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.toy.steps.Settle = time.Minute
		find := h.toy.steps.Find
		h.toy.steps.Find = func(ctx context.Context, a *connector.Access, id connector.OperationID, in createIn) (note, connector.Found, error) {
			defer time.Sleep(2 * time.Second) // the answer to an early question comes late
			return find(ctx, a, id, in)
		}
		id := loseAnswer(h, false)
		time.Sleep(59 * time.Second)
		rec, err := h.runtime().Settle(t.Context(), "acme", id)
		if rec.State != connector.StateUnknown {
			t.Errorf("%s %v; the provider was asked 1 s before the settle time was over", rec.State, err)
		}
	})
}

func TestVerifyInSettleHasADeadline(t *testing.T) {
	h := newHarness(t)
	var has bool
	h.toy.steps.Verify = func(ctx context.Context, _ *connector.Access, _ note, _ createIn) ([]connector.Change, error) {
		_, has = ctx.Deadline()
		return nil, nil
	}
	id := loseAnswer(h, true)
	if _, err := h.runtime().Settle(t.Context(), "acme", id); err != nil {
		t.Fatal(err)
	}
	if !has {
		t.Error("Verify runs without a deadline")
	}
}

func TestAnOutcomeAtTheDeadlineIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.provider.script(func(ctx context.Context, _ func() connector.Response) (connector.Response, error) {
			<-ctx.Done()
			return connector.Response{}, &connector.Error{Code: connector.CodeDeadline, Effect: connector.DispositionUnknown, Err: ctx.Err()}
		})
		id := h.approve(draft)
		h.call("desk.create", draft)
		if s := h.ledger.state(id); s != connector.StateUnknown {
			t.Errorf("ledger says %s, want unknown", s)
		}
	})
}
func TestAnAppliedWriteAtTheDeadlineIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.provider.script(func(ctx context.Context, apply func() connector.Response) (connector.Response, error) {
			r := apply()
			<-ctx.Done()
			return r, nil
		})
		id := h.approve(draft)
		r := h.call("desk.create", draft)
		if s := h.ledger.state(id); s != connector.StateApplied {
			t.Errorf("ledger says %s, result %s; want applied", s, r.Status)
		}
	})
}

func TestAnUnlistedCodeIsInternal(t *testing.T) {
	h := newHarness(t)
	h.toy.get = func(context.Context, *connector.Access, getIn) (note, error) {
		return note{}, &connector.Error{Message: "no code"}
	}
	r := h.call("desk.get", `{"id":"n1"}`)
	if code(r) != "INTERNAL" || r.ExitCode() == 0 {
		t.Errorf("%s exit %d next %q http %d", code(r), r.ExitCode(), r.Error.Next, r.Error.Code.HTTPStatus())
	}
}

func TestPendingShowsTheQuery(t *testing.T) {
	h := newHarness(t)
	h.toy.steps.Plan = func(context.Context, *connector.Access, createIn) (connector.Request, error) {
		return connector.Request{Method: http.MethodPost, Path: "/notes", Query: map[string][]string{"notify": {"everyone"}}}, nil
	}
	if r := h.call("desk.create", draft); !strings.Contains(text(t, r.Pending), "everyone") {
		t.Errorf("%s", text(t, r.Pending))
	}
}

func TestTheOutputOfAWriteHasALimit(t *testing.T) {
	h := newHarness(t)
	h.config.MaxResultBytes = 20
	r := h.create(`{"title":"` + strings.Repeat("x", 100) + `"}`)
	if len(r.Data) > 20 {
		t.Errorf("%d bytes of data over a limit of 20", len(r.Data))
	}
}

func TestNoKeyOfTheProviderIsInAMessage(t *testing.T) {
	_, err := connector.DecodeJSON[map[string]int](connector.Response{Body: []byte(`{"tok-4711":"x"}`)})
	if strings.Contains(connector.AsError(err).Message, "tok-4711") {
		t.Errorf("%v", err)
	}
}

func TestAHandlerCannotWidenItsGrant(t *testing.T) {
	h := newHarness(t)
	h.toy.get = func(_ context.Context, a *connector.Access, _ getIn) (note, error) {
		a.Connection().Resources[0] = "p9"
		if a.Allowed("p9") {
			t.Error("the handler widened its own grant")
		}
		return note{"n1", "x"}, nil
	}
	h.call("desk.get", `{"id":"n1"}`)
}

func TestLintSpeaksInAStableOrder(t *testing.T) {
	first := connector.Lint(connector.Connector{ID: "desk"}).Error()
	for range 50 {
		if got := connector.Lint(connector.Connector{ID: "desk"}).Error(); got != first {
			t.Fatalf("%s\n---\n%s", first, got)
		}
	}
}

func TestDefinitionsShareNoMemory(t *testing.T) {
	h := newHarness(t)
	a, _ := h.runtime().Tools(t.Context(), alice)
	a[0].InputSchema[0] = 'X'
	a[0].Scopes[0] = "admin"
	b, _ := h.runtime().Tools(t.Context(), alice)
	if b[0].InputSchema[0] == 'X' || b[0].Scopes[0] == "admin" {
		t.Error("a caller changed another caller's definition")
	}
}

func TestReservedNamesInAnySpelling(t *testing.T) {
	type camel struct {
		A string `json:"tenantId"`
		B string `json:"accessToken"`
		C string `json:"baseUrl"`
		D string `json:"approvalId"`
	}
	h := newHarness(t)
	h.toy.edit = read[camel](nil)
	if err := connector.Lint(h.toy.connector(h.stages)); err == nil {
		t.Error("loads")
	}
}

func TestPlanCannotChooseAHeader(t *testing.T) {
	h := newHarness(t)
	h.toy.steps.Dedupe = connector.Dedupe{}
	h.toy.steps.Plan = func(context.Context, *connector.Access, createIn) (connector.Request, error) {
		return connector.Request{Method: http.MethodPost, Path: "/notes", Body: []byte(`{}`), DedupeHeader: "Authorization", Unchanged: "x"}, nil
	}
	h.create(draft)
	if w := h.provider.writes()[0]; w.DedupeHeader != "" {
		t.Errorf("DedupeHeader %q", w.DedupeHeader)
	}
}

func TestAListHasNoCursorParameterOfItsOwn(t *testing.T) {
	type own struct {
		Cursor   int `json:"cursor"`
		PageSize int `json:"page_size"`
	}
	h := newHarness(t)
	h.toy.edit = func(c *connector.Connector) {
		c.Operations[1] = connector.List(spec("desk.search", connector.EffectRead), func(context.Context, *connector.Access, own, connector.Position) (connector.Page[note], error) {
			return connector.Page[note]{}, nil
		})
	}
	err := connector.Lint(h.toy.connector(h.stages))
	if err == nil {
		r := h.call("desk.search", `{"page_size":5,"cursor":null}`)
		h2 := h.call("desk.search", `{"page_size":5,"cursor":"x"}`)
		t.Errorf("loads: %s; %s", text(t, r), text(t, h2))
	} else {
		t.Log(err)
	}
}

func TestACallerWhoGaveUpIsToldSo(t *testing.T) {
	h := newHarness(t)
	h.policyErr = context.Canceled
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := h.execute(ctx, connector.Call{Tool: "desk.get", Arguments: []byte(`{"id":"n1"}`)}); code(r) != "CANCELED" {
		t.Error(code(r))
	}
}

func TestNegativeSettleAndUnknownDedupeDoNotLoad(t *testing.T) {
	h := newHarness(t)
	h.toy.steps.Settle = -time.Hour
	h.toy.steps.Dedupe = connector.Dedupe{Kind: "telepathy"}
	if err := connector.Lint(h.toy.connector(h.stages)); err == nil {
		t.Error("loads")
	}
}

func TestSettleWithoutALedgerIsAnError(t *testing.T) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	h := newHarness(t)
	h.config.Operations = nil
	h.toy.edit = func(c *connector.Connector) { c.Operations = c.Operations[:2] }
	h.runtime().Settle(t.Context(), "acme", "op_1")
}

func TestACycleOfPositionsEnds(t *testing.T) {
	h := newHarness(t)
	walker(h, map[string]connector.Page[note]{"": {Next: "a"}, "a": {Next: "b"}, "b": {Next: "a"}})
	r := page(h, `{"query":"x","page_size":5,"cursor":null}`)
	for range 50 {
		if r.NextCursor == nil {
			return
		}
		r = page(h, fmt.Sprintf(`{"query":"x","page_size":5,"cursor":%q}`, *r.NextCursor))
	}
	t.Error("walked for ever")
}

func TestAPanicOfTheTransportInAWriteIsUnknown(t *testing.T) {
	h := newHarness(t)
	h.provider.script(func(context.Context, func() connector.Response) (connector.Response, error) { panic("x") })
	if r := h.create(draft); r.Status != connector.StatusUnknown {
		t.Error(text(t, r))
	}
}

func TestProvenanceNamesTheWriteNotTheReadBack(t *testing.T) {
	h := newHarness(t)
	h.toy.steps.Verify = func(ctx context.Context, a *connector.Access, n note, _ createIn) ([]connector.Change, error) {
		_, _, err := connector.Get[note](ctx, a, connector.Request{Path: "/notes/" + n.ID})
		return nil, err
	}
	r := h.create(draft)
	if r.Provenance.RequestID != "req-201" {
		t.Errorf("%s %s", r.Provenance.RequestID, r.Provenance.Source)
	}
}

// F29: case variants per the DecodeJSON doc "names in another case ... are PROVIDER_CONTRACT; unknown names are not"
