package sandboxorg

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// T03, T20, T35: the organisation's own ways to refuse; nil leaves it to the
// common table. What it means end to end is tested in the package above.
// Guarantee: TIX7
func TestClassify(t *testing.T) {
	t.Parallel()
	type verdict struct {
		Code    connector.Code
		Effect  connector.Disposition
		Wait    time.Duration
		Guessed bool
		Scopes  []string
	}
	const scope, limit = `{"error":"insufficient_scope","scope":"tickets:read tickets:write"}`, `{"message":"secondary Rate Limit"}`
	none, refused := connector.DispositionNone, connector.DispositionNotApplied
	for _, c := range []struct {
		name, method string
		answer       connector.Response
		want         *verdict
	}{
		{"limit on a write", "POST", connector.Response{Status: 403, Body: []byte(limit)}, &verdict{connector.CodeRateLimited, refused, time.Minute, true, nil}},
		{"limit on a read", "GET", connector.Response{Status: 403, Body: []byte(limit)}, &verdict{connector.CodeRateLimited, none, time.Minute, true, nil}},
		{"limit with a time", "GET", connector.Response{Status: 403, Body: []byte(limit), RetryAfter: 3 * time.Second}, &verdict{connector.CodeRateLimited, none, 3 * time.Second, false, nil}},
		{"scope on a write", "POST", connector.Response{Status: 403, Body: []byte(scope)}, &verdict{connector.CodeScopeRequired, refused, 0, false, []string{"tickets:read", "tickets:write"}}},
		{"scope on a read", "GET", connector.Response{Status: 403, Body: []byte(scope)}, &verdict{connector.CodeScopeRequired, none, 0, false, []string{"tickets:read", "tickets:write"}}},
		{"our key with other bytes", "POST", connector.Response{Status: 409, Body: []byte(`{"error":"idempotency_key_reused"}`)},
			&verdict{connector.CodeOutcomeUnknown, connector.DispositionUnknown, 0, false, nil}},
		{"another conflict", "POST", connector.Response{Status: 409, Body: []byte(`{"error":"conflict"}`)}, nil},
		{"a limit's words in a conflict", "POST", connector.Response{Status: 409, Body: []byte(limit)}, nil},
		{"another 403", "POST", connector.Response{Status: 403, Body: []byte(`{"error":"forbidden","message":"your role is reader"}`)}, nil},
		{"403 with a page", "POST", connector.Response{Status: 403, Body: []byte(`<html>rate limit</html>`)}, nil},
		{"403 without a body", "POST", connector.Response{Status: 403}, nil},
		{"a limit's words elsewhere", "POST", connector.Response{Status: 400, Body: []byte(limit)}, nil},
		{"made", "POST", connector.Response{Status: 201, Body: []byte(limit)}, nil},
	} {
		e := Driver{}.Classify(connector.Request{Method: c.method}, c.answer)
		var got *verdict
		if e != nil {
			got = &verdict{e.Code, e.Effect, e.RetryAfter, e.Guessed, e.Scopes}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// T06, T23: an id counts when it stands in a whole document.
// Guarantee: TIX6
func TestCreatedNeedsAnIdInAWholeDocument(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		id    string
		fails bool
	}{
		`{"id":"007","project":{"id":"web"},"type":"ticket","version":1}`: {"007", false},
		`{"id":"007","unknown":{"deep":[1]}}`:                             {"007", false},
		`{"id":"007","severity":{"new":"shape"}}`:                         {"007", true},
		`{"severity":5,"id":"007"}`:                                       {"007", true},
		`{"id":"007"}{"and":`:                                             {"", true},
		`{"id":"007"`:                                                     {"", true},
		`{"id":7}`:                                                        {"", true},
		`{"ID":"007"}`:                                                    {"", false},
		`{"id":"007","id":"7"}`:                                           {"", true},
		`{"title":"x"}`:                                                   {"", false},
		`[]`:                                                              {"", true},
		`null`:                                                            {"", false},
		``:                                                                {"", true},
	} {
		got, err := Driver{}.Created(connector.Response{Status: 201, Body: []byte(body)})
		if got.ID != want.id || (err != nil) != want.fails {
			t.Errorf("%s: id %q, error %v; want %q, %v", body, got.ID, err, want.id, want.fails)
		}
	}
}
