package connector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: RUN1, RUN2, RUN6, CON3, CON5
func TestRefusalHappensBeforeEveryLaterStage(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection to policy.internal:443 refused")
	get := connector.Call{Tool: "desk.get", Arguments: []byte(`{"id":"n1"}`)}
	create := connector.Call{Tool: "desk.create", Arguments: []byte(`{"title":"x"}`)}
	named := func(tool string) connector.Call { return connector.Call{Tool: tool, Arguments: get.Arguments} }
	reached := func(stages ...string) map[string]int {
		m := map[string]int{"audit": 1}
		for _, s := range stages {
			m[s]++
		}
		return m
	}
	for _, c := range []struct {
		name  string
		call  connector.Call
		setup func(*harness)
		code  connector.Code
		want  map[string]int
	}{
		{"unknown tool", named("desk.nothing"), nil, connector.CodeUnknownTool, reached()},
		{"empty name", named(""), nil, connector.CodeUnknownTool, reached()},
		{"other case", named("desk.Get"), nil, connector.CodeUnknownTool, reached()},
		{"trailing space", named("desk.get "), nil, connector.CodeUnknownTool, reached()},
		{"trailing newline", named("desk.get\n"), nil, connector.CodeUnknownTool, reached()},
		{"trailing NUL", named("desk.get\x00"), nil, connector.CodeUnknownTool, reached()},
		{"prefix", named("desk.ge"), nil, connector.CodeUnknownTool, reached()},
		{"look-alike letter", named("desk.g\u0435t"), nil, connector.CodeUnknownTool, reached()},
		{"schema, read", connector.Call{Tool: "desk.get", Arguments: []byte(`{"id":5}`)}, nil, connector.CodeInvalidInput, reached()},
		{"schema, list", connector.Call{Tool: "desk.search", Arguments: []byte(`{"query":"x"}`)}, nil, connector.CodeInvalidInput, reached()},
		{"schema, write", connector.Call{Tool: "desk.create", Arguments: []byte(`{}`)}, nil, connector.CodeInvalidInput, reached()},
		{"too many bytes", get, func(h *harness) { h.config.MaxArguments = 3 }, connector.CodeInvalidInput, reached()},
		{"policy denies", get, func(h *harness) { h.decision.Allow = false }, connector.CodePermissionDenied, reached("policy")},
		{"policy denies a write", create, func(h *harness) { h.decision.Allow = false }, connector.CodePermissionDenied, reached("policy")},
		{"policy is down", get, func(h *harness) { h.policyErr = broken }, connector.CodeUnavailable, reached("policy")},
		{"no consent", get, func(h *harness) { h.consent = false }, connector.CodeConsentRequired, reached("policy", "consent")},
		{"consent is down", get, func(h *harness) { h.consErr = broken }, connector.CodeUnavailable, reached("policy", "consent")},
		{"no connection", create, func(h *harness) { h.resolveErr = &connector.Error{Code: connector.CodeConnectionRequired} },
			connector.CodeConnectionRequired, reached("policy", "consent", "resolve")},
		{"missing scope", create, func(h *harness) {
			h.resolveErr = &connector.Error{Code: connector.CodeScopeRequired, Scopes: []string{"notes"}}
		}, connector.CodeScopeRequired, reached("policy", "consent", "resolve")},
		{"bad cursor", connector.Call{Tool: "desk.search", Arguments: []byte(`{"query":"x","page_size":5,"cursor":"forged"}`)}, nil,
			connector.CodeCursorInvalid, reached("policy", "consent", "resolve", "open")},
		{"no approval", create, nil, connector.CodeApprovalRequired,
			reached("policy", "consent", "resolve", "ledger.find", "plan", "ledger.propose")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			if c.setup != nil {
				c.setup(h)
			}
			result := h.execute(t.Context(), c.call)
			if code(result) != c.code.String() || result.Status != connector.StatusError {
				t.Errorf("result = %s %s, want error %s", result.Status, code(result), c.code)
			}
			if diff := cmp.Diff(c.want, h.seen()); diff != "" {
				t.Errorf("stages reached (-want +got):\n%s", diff)
			}
			if n := len(h.provider.writes()); n != 0 {
				t.Errorf("%d writes were sent, want 0", n)
			}
			if result.Effect.Disposition != connector.DispositionNone {
				t.Errorf("effect = %s, want none", result.Effect.Disposition)
			}
			if result.Data != nil || result.Receipt != nil {
				t.Errorf("a refusal carries data %s or a receipt", result.Data)
			}
		})
	}
}

// Guarantee: RUN1, RUN3
func TestSecondUseOfACallIDStopsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.provider.seed("one")
	call := connector.Call{ID: "call-1", Tool: "desk.get", Arguments: []byte(`{"id":"n1"}`)}
	if r := h.execute(t.Context(), call); r.Status != connector.StatusSuccess {
		t.Fatalf("first call ended as %s %s", r.Status, code(r))
	}
	h.forget()
	if got := code(h.execute(t.Context(), call)); got != "DUPLICATE_CALL" {
		t.Errorf("second call = %s, want DUPLICATE_CALL", got)
	}
	if diff := cmp.Diff(map[string]int{"audit": 1}, h.seen()); diff != "" {
		t.Errorf("stages reached (-want +got):\n%s", diff)
	}
	for _, other := range []connector.Caller{
		{Tenant: "acme", Principal: "bob", Run: "run-1"},
		{Tenant: "other", Principal: "alice", Run: "run-1"},
		{Tenant: "acme", Principal: "alice", Run: "run-2"},
	} {
		if r := h.runtime().Execute(t.Context(), other, call); r.Status != connector.StatusSuccess {
			t.Errorf("%+v can't use its own call-1: %s", other, code(r))
		}
	}
}

// Guarantee: RUN6
func TestOnlyPolicyAndConsentTogetherReachTheHandler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy, consent bool
		want            string
		handler         int
	}{
		{true, true, "", 1},
		{true, false, "CONSENT_REQUIRED", 0},
		{false, true, "PERMISSION_DENIED", 0},
		{false, false, "PERMISSION_DENIED", 0},
	} {
		t.Run(fmt.Sprintf("policy %t consent %t", c.policy, c.consent), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.provider.seed("one")
			h.decision.Allow, h.consent = c.policy, c.consent
			if got := code(h.call("desk.get", `{"id":"n1"}`)); got != c.want {
				t.Errorf("code = %q, want %q", got, c.want)
			}
			if got := h.seen()["handler"]; got != c.handler {
				t.Errorf("handler ran %d times, want %d", got, c.handler)
			}
			definitions, err := h.runtime().Tools(t.Context(), alice)
			if err != nil || (len(definitions) == 3) != (c.policy && c.consent) || len(definitions)%3 != 0 {
				t.Errorf("Tools = %d definitions, %v", len(definitions), err)
			}
		})
	}
}

// Guarantee: RUN6
func TestGateThatAnswersAndFailsIsShut(t *testing.T) {
	t.Parallel()
	broken := errors.New("down")
	for name, setup := range map[string]func(*harness){
		"policy":  func(h *harness) { h.policyErr = broken },
		"consent": func(h *harness) { h.consErr = broken },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			setup(h) // the value beside the error still says yes
			if got := code(h.call("desk.get", `{"id":"n1"}`)); got != "UNAVAILABLE" {
				t.Errorf("code = %q, want UNAVAILABLE", got)
			}
			if n := h.seen()["resolve"]; n != 0 {
				t.Errorf("the connection was resolved %d times, want 0", n)
			}
			if list, err := h.runtime().Tools(t.Context(), alice); err == nil || list != nil {
				t.Errorf("Tools = %v, %v; want no list and an error", list, err)
			}
		})
	}
}

// Guarantee: RUN1, RUN4
func TestSuccessfulCallPassesEachStageOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, tool, arguments string
		want                  map[string]int
	}{
		{"read", "desk.get", `{"id":"n1"}`, map[string]int{"policy": 1, "consent": 1, "resolve": 1, "handler": 1, "transport.read": 1, "current": 1, "audit": 1}},
		{"list", "desk.search", `{"query":"","page_size":5,"cursor":null}`, map[string]int{"policy": 1, "consent": 1, "resolve": 1, "handler": 1, "current": 1, "audit": 1}},
		{"write", "desk.create", `{"title":"x"}`, map[string]int{"policy": 1, "consent": 1, "resolve": 1, "ledger.find": 1, "ledger.dispatch": 1, "transport.write": 1, "ledger.finish": 1, "audit": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.provider.seed("one")
			if c.name == "write" {
				h.approve(c.arguments)
			}
			if r := h.call(c.tool, c.arguments); r.Status != connector.StatusSuccess {
				t.Errorf("status = %s %s, want success", r.Status, code(r))
			}
			if diff := cmp.Diff(c.want, h.seen()); diff != "" {
				t.Errorf("stages reached (-want +got):\n%s", diff)
			}
		})
	}
}

// Guarantee: RUN1
func TestConnectionThatChangedDuringTheCallReleasesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.provider.seed("one")
	h.provider.scriptReads(func(_ context.Context, r connector.Request) (connector.Response, error) {
		h.changeConnection(func(c *connector.Connection) { c.AuthzVersion++ })
		return h.provider.read(r), nil
	})
	r := h.call("desk.get", `{"id":"n1"}`)
	if code(r) != "CONNECTION_REQUIRED" || r.Data != nil {
		t.Errorf("result = %s with data %s, want CONNECTION_REQUIRED and none", code(r), r.Data)
	}
}

// Guarantee: RUN7
func TestAuditRecordNamesTheCallAndHoldsNoValues(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.create(`{"title":"the secret title"}`)
	a := h.auditor.last()
	got := []string{a.Run, a.CallID, string(a.Tenant), string(a.Principal), string(a.Connection), a.Tool, a.Connector,
		a.Version, a.PolicyVersion, a.Decision, string(a.Operation), string(a.Status), a.RequestID}
	want := []string{"run-1", r.CallID, "acme", "alice", "con-1", "desk.create", "desk", "1.2.3", "policy-7", "allowed",
		string(r.Effect.Operation), "success", "req-201"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit record (-want +got):\n%s", diff)
	}
	if a.ArgsDigest == "" || len(a.Stages) == 0 {
		t.Errorf("the record lacks a digest or stage times: %+v", a)
	}
	if leaks(text(t, a), "secret title") {
		t.Errorf("the record holds an argument: %+v", a)
	}
}
