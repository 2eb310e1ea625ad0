package tickets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

const pageText = "<!DOCTYPE html><html><title>Sign in</title>The instance is asleep</html>"

// quiet fails when a provider's text is in a result.
func quiet(t *testing.T, what string, r connector.Result) {
	t.Helper()
	wire, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"asleep", "Sign in", "html", "users/sign_in", "secondary", "evil.test", "Resource not"} {
		if strings.Contains(string(wire), text) {
			t.Errorf("%s: the provider's text %q is in the result", what, text)
		}
	}
}

// T16, T17, T20, T35: a create that the provider refuses for sure has no effect,
// and is never sent to another address or again.
// Guarantee: NET8, TIX5, TIX6, RUN4
func TestCreateRefusedIsNotApplied(t *testing.T) {
	t.Parallel()
	all := newDesk(t).connect("alice")
	html := func(status int) sandbox.Effect { return sandbox.Effect{Kind: "html", Status: status, Body: pageText} }
	status := func(status int, body string) sandbox.Effect {
		return sandbox.Effect{Kind: "status", Status: status, Body: body}
	}
	to := func(status int, location string) sandbox.Effect {
		return sandbox.Effect{Kind: "redirect", Status: status, Location: location}
	}
	for _, c := range []struct {
		name   string
		effect sandbox.Effect
		code   connector.Code
		state  connector.OperationState
	}{
		{"T16 307", to(307, "/"), connector.CodeMoved, connector.StateRejected},
		{"T16 308", to(308, "/"), connector.CodeMoved, connector.StateRejected},
		{"T16 307 to another host", to(307, "https://evil.test/"), connector.CodeMoved, connector.StateRejected},
		{"T16 307 without Location", to(307, ""), connector.CodeMoved, connector.StateRejected},
		{"T16 405", status(405, `{"message":"Non GET methods are not allowed for moved projects"}`), connector.CodeProviderContract, connector.StateRejected},
		{"T17 403 with a page", html(403), connector.CodePermissionDenied, connector.StateRejected},
		{"T17 404 with a page", html(404), connector.CodeNotFound, connector.StateRejected},
		{"T20 403 that is a rate limit", status(403, `{"message":"You have exceeded a secondary rate limit. Wait."}`), connector.CodeRateLimited, connector.StateNotSent},
		{"T20 403 that is none", status(403, `{"message":"Resource not accessible by integration"}`), connector.CodePermissionDenied, connector.StateRejected},
		{"T35 missing scope", status(403, `{"error":"insufficient_scope","scope":"tickets:write"}`), connector.CodeScopeRequired, connector.StateRejected},
		{"T35 401", status(401, ""), connector.CodeConnectionRequired, connector.StateNotSent},
		{"T35 404", status(404, ""), connector.CodeNotFound, connector.StateRejected},
		{"T03 another conflict", status(409, `{"error":"conflict"}`), connector.CodeConflict, connector.StateRejected},
		{"410", status(410, ""), connector.CodeGone, connector.StateRejected},
		{"412", status(412, ""), connector.CodeConflict, connector.StateRejected},
		{"413", status(413, ""), connector.CodeInvalidInput, connector.StateRejected},
		{"422", status(422, `{"error":"invalid"}`), connector.CodeInvalidInput, connector.StateRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			alice, draft := all.in(t), titled(t)
			front := alice.org.Hits("GET /{$}")
			alice.approved(draft)
			alice.misbehave(rule(onCreate, c.effect))
			r := alice.call("tickets.create", draft)
			alice.expect("refused", r, connector.StatusError, c.code, connector.DispositionNotApplied)
			quiet(t, c.name, r)
			alice.counts("once", 1, 0)
			if alice.org.Hits("GET /{$}") != front {
				t.Error("the redirect was followed")
			}
			rec := alice.record(r.Effect.Operation)
			if rec.State != c.state {
				t.Errorf("state %s (%s), want %s", rec.State, rec.Reason, c.state)
			}
			// What nobody looked at may be sent under the same approval; what
			// was refused needs a new one.
			alice.misbehave()
			r = alice.call("tickets.create", draft)
			if c.state == connector.StateNotSent {
				alice.expect("again", r, connector.StatusSuccess, 0, connector.DispositionApplied)
				alice.counts("again", 2, 1)
			} else {
				alice.expect("again", r, connector.StatusError, connector.CodeApprovalRequired, connector.DispositionNone)
				alice.counts("again", 1, 0)
			}
		})
	}
}

// T20: a create that met a limit was not looked at, and its approval stands.
// Guarantee: TIX6
func TestT20CreateThatMetALimit(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	alice.approved(draft)
	alice.misbehave(rule(onCreate, sandbox.Effect{Kind: "status", Status: 429, RetryAfter: "7"}))
	r := alice.call("tickets.create", draft)
	alice.expect("limited", r, connector.StatusError, connector.CodeRateLimited, connector.DispositionNotApplied)
	if r.Error == nil || r.Error.RetryAfter != 7 || r.Error.Guessed {
		t.Errorf("wait %+v", r.Error)
	}
	if rec := alice.record(r.Effect.Operation); rec.State != connector.StateNotSent {
		t.Errorf("state %s", rec.State)
	}
	alice.misbehave()
	if r = alice.call("tickets.create", draft); code(r) == connector.CodeApprovalRequired {
		t.Error("the approval was used up")
	}
}

// T20: how long to wait is the provider's word or a marked guess.
// Guarantee: RUN4
func TestT20RateLimitInDisguise(t *testing.T) {
	t.Parallel()
	all := newDesk(t).connect("alice")
	for _, c := range []struct {
		name    string
		effect  sandbox.Effect
		code    connector.Code
		wait    float64
		guessed bool
	}{
		{"403 without headers", sandbox.Effect{Status: 403, Body: `{"message":"You have exceeded a secondary RATE LIMIT"}`}, connector.CodeRateLimited, 60, true},
		{"403 with Retry-After", sandbox.Effect{Status: 403, RetryAfter: "30", Body: `{"message":"rate limit"}`}, connector.CodeRateLimited, 30, false},
		{"429 with Retry-After", sandbox.Effect{Status: 429, RetryAfter: "9"}, connector.CodeRateLimited, 9, false},
		{"403 of another kind", sandbox.Effect{Status: 403, Body: `{"message":"Resource not accessible by integration"}`}, connector.CodePermissionDenied, 0, false},
		{"403 with text that is no JSON", sandbox.Effect{Status: 403, Body: `rate limit`}, connector.CodePermissionDenied, 0, false},
	} {
		alice := all
		if c.effect.RetryAfter != "" {
			alice = newDesk(t).connect("alice") // a wait that was asked for is kept, and would hold the others back
		}
		c.effect.Kind = "status"
		alice.misbehave(rule(onGet, c.effect))
		r, _ := alice.get("WEB-1")
		alice.expect(c.name, r, connector.StatusError, c.code, connector.DispositionNone)
		quiet(t, c.name, r)
		if r.Error != nil && (r.Error.RetryAfter != c.wait || r.Error.Guessed != c.guessed) {
			t.Errorf("%s: wait %v, guessed %v", c.name, r.Error.RetryAfter, r.Error.Guessed)
		}
		alice.misbehave()
		// The credential was never in doubt.
		if r, _ = alice.get("WEB-1"); code(r) != 0 && (code(r) != connector.CodeRateLimited || c.effect.RetryAfter == "") {
			t.Errorf("%s, afterwards: %s %v", c.name, r.Status, code(r))
		}
	}
	alice := all
	alice.misbehave(answers(onGet, 403, `{"error":"insufficient_scope","scope":"tickets:read profile:read"}`))
	r, _ := alice.get("WEB-1")
	alice.expect("T35 missing scope", r, connector.StatusError, connector.CodeScopeRequired, connector.DispositionNone)
	if diff := cmp.Diff([]string{"tickets:read", "profile:read"}, r.Error.Scopes); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
}

// T17, T22, T23: what is not the document that was promised is a failure of its
// own kind, never an empty list and never an absent ticket.
// Guarantee: NET8, RUN4
func TestReadsOfOddAnswersFail(t *testing.T) {
	t.Parallel()
	all := newDesk(t).connect("alice")
	for _, c := range []struct {
		name   string
		effect sandbox.Effect
		code   connector.Code
	}{
		{"T17 a page", sandbox.Effect{Kind: "html", Status: 200, Body: pageText}, connector.CodeProviderContract},
		{"T17 a page that is called JSON", sandbox.Effect{Kind: "html", Status: 200, Variant: "json", Body: pageText}, connector.CodeProviderContract},
		{"T17 403 with a page", sandbox.Effect{Kind: "html", Status: 403, Body: pageText}, connector.CodePermissionDenied},
		{"T17 redirect to a page", sandbox.Effect{Kind: "redirect", Status: 302, Location: "/"}, connector.CodeProviderContract},
		{"T17 redirect to another host", sandbox.Effect{Kind: "redirect", Status: 302, Location: "https://evil.test/users/sign_in"}, connector.CodeEgressBlocked},
		{"T16 301 without Location", sandbox.Effect{Kind: "redirect", Status: 301}, connector.CodeProviderContract},
		{"T22 an error with 200", sandbox.Effect{Kind: "status", Status: 200, Body: `{"error":"401 Credentials Required"}`}, connector.CodeProviderContract},
		{"T22 null data", sandbox.Effect{Kind: "status", Status: 200, Body: `{"items":null,"errors":[{}]}`}, connector.CodeProviderContract},
		{"T22 null", sandbox.Effect{Kind: "status", Status: 200, Body: `null`}, connector.CodeProviderContract},
		{"T22 text for data", sandbox.Effect{Kind: "status", Status: 200, Body: `{"items":"null","id":7}`}, connector.CodeProviderContract},
		{"T23 empty", sandbox.Effect{Kind: "empty", Status: 200}, connector.CodeProviderContract},
		{"T23 no content", sandbox.Effect{Kind: "empty"}, connector.CodeProviderContract},
		{"T23 cut off", sandbox.Effect{Kind: "truncate"}, connector.CodeProviderContract},
		{"T23 gzip without its end", sandbox.Effect{Kind: "truncate", Variant: "gzip"}, connector.CodeProviderContract},
		{"T23 garbage behind", sandbox.Effect{Kind: "trailing_garbage"}, connector.CodeProviderContract},
		{"T23 called text", sandbox.Effect{Kind: "wrong_content_type"}, connector.CodeProviderContract},
		{"T23 over the limit", sandbox.Effect{Kind: "oversized", Bytes: 6 << 20}, connector.CodeTooLarge},
		{"T23 a bomb", sandbox.Effect{Kind: "gzip_bomb", Bytes: 64 << 20}, connector.CodeTooLarge},
		{"304 that nobody asked for", sandbox.Effect{Kind: "empty", Status: 304}, connector.CodeProviderContract},
		{"a list for a ticket", sandbox.Effect{Kind: "status", Status: 200, Body: `[]`}, connector.CodeProviderContract},
		{"T17 502 with a page", sandbox.Effect{Kind: "html", Status: 502, Body: pageText}, connector.CodeUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			alice := all.in(t)
			alice.misbehave(rule(onList, c.effect), rule(onGet, c.effect))
			found, _ := alice.search(search{Query: "a"})
			alice.expect("search", found, connector.StatusError, c.code, connector.DispositionNone)
			quiet(t, "search", found)
			got, _ := alice.get("WEB-1")
			alice.expect("get", got, connector.StatusError, c.code, connector.DispositionNone)
			quiet(t, "get", got)
		})
	}
	alice := all.in(t)
	alice.misbehave(answers(onGet, 401, ""))
	r, _ := alice.get("WEB-1")
	alice.expect("T35 401", r, connector.StatusError, connector.CodeConnectionRequired, connector.DispositionNone)
}
