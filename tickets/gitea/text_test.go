package gitea

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// A foot that somebody else wrote, for bodies that try to be more than text.
const fakeFoot = "\n\n---\nSeverity: low\nEvidence: [\"stolen\"]\nDrawbridge operation: op_fake"

var bodies = rapid.Custom(func(t *rapid.T) string {
	var b strings.Builder
	for range rapid.IntRange(0, 6).Draw(t, "parts") {
		b.WriteString(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{fakeFoot, footRule, "\n", "\n\n---", "---\n",
			footSeverity + "high", footEvidence + "[]", footMark + "op_other", " ", "\t", "\\r\\n"})).Draw(t, "part"))
	}
	return strings.ReplaceAll(b.String(), "\r", "") // as the connector hands it on
})

// What is marked comes back whole, whatever the body says about itself, also
// when Gitea's web page has turned the line ends.
// Guarantee: TIX5, TIX7
func TestMarkRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		id := connector.OperationID("op_" + rapid.StringMatching(`[a-z2-7]{16}`).Draw(rt, "id"))
		d := tickets.Draft{Body: bodies.Draw(rt, "body"), Severity: rapid.SampledFrom(tickets.Severities).Draw(rt, "severity"),
			Evidence: rapid.SliceOfN(rapid.String(), 0, 3).Draw(rt, "evidence")}
		text := mark(d, id)
		if rapid.Bool().Draw(rt, "edited on a page") {
			text = strings.ReplaceAll(text, "\n", "\r\n") + "\r\n"
		}
		body, severity, evidence := unmark(text)
		if markOf(text) != id || body != d.Body || severity != d.Severity || !slices.Equal(evidence, d.Evidence) {
			rt.Fatalf("%q of %+v came back as %q, %q, %q, %q", text, d, markOf(text), body, severity, evidence)
		}
	})
}

func TestMarkOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]connector.OperationID{
		"":                                                       "",
		"Drawbridge operation: ":                                 "",
		"Drawbridge operation: op_a":                             "op_a",
		"x\nDrawbridge operation: op_a":                          "op_a",
		"x\r\nDrawbridge operation: op_a\r\n ":                   "op_a",
		"Drawbridge operation: op_a\nx":                          "",
		"> Drawbridge operation: op_a":                           "",
		" Drawbridge operation: op_a":                            "",
		"drawbridge operation: op_a":                             "",
		"x Drawbridge operation: op_a":                           "",
		"Drawbridge operation: op_a\nDrawbridge operation: op_b": "op_b",
	} {
		if got := markOf(text); got != want {
			t.Errorf("markOf(%q) = %q, want %q", text, got, want)
		}
	}
}

// Text that is not ours, or was edited, is text.
func TestUnmarkOfOtherTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, body, severity string
		evidence             []string
	}{
		{"plain", "plain", "", nil},
		{"a\r\nb", "a\nb", "", nil},
		{"a\n\n---\nb", "a\n\n---\nb", "", nil},
		{"a\n\n---\nSeverity: high", "a\n\n---\nSeverity: high", "", nil},
		{"a\n\n---\nSeverity: urgent\nDrawbridge operation: op_a", "a", "", nil},
		{"a\n\n---\nSeverity: high\nEvidence: [\"x\", 5]\nDrawbridge operation: op_a", "a", "high", nil},
		{"a\n\n---\nSeverity: high\nEvidence: none\nDrawbridge operation: op_a", "a", "high", nil},
		{"a\n\n---\nsomething new\nDrawbridge operation: op_a", "a", "", nil},
		{"Drawbridge operation: op_a", "Drawbridge operation: op_a", "", nil},
	} {
		body, severity, evidence := unmark(c.text)
		if body != c.body || severity != c.severity || !cmp.Equal(evidence, c.evidence) {
			t.Errorf("unmark(%q) = %q, %q, %q; want %q, %q, %q", c.text, body, severity, evidence, c.body, c.severity, c.evidence)
		}
	}
}

func FuzzUnmark(f *testing.F) {
	for _, s := range []string{"", fakeFoot, "a" + fakeFoot + fakeFoot, "a\r\n\r\n---\r\nDrawbridge operation: x", "\n\n---\nEvidence: [\"\\ud800\"]\nDrawbridge operation: x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body, severity, _ := unmark(text)
		if !strings.HasPrefix(strings.ReplaceAll(text, "\r\n", "\n"), body) {
			t.Errorf("%q is not the beginning of %q", body, text)
		}
		if severity != "" && !slices.Contains(tickets.Severities, severity) {
			t.Errorf("severity %q", severity)
		}
	})
}

func TestPositionRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := position{rapid.StringN(1, 50, -1).Draw(rt, "repo"), rapid.IntRange(1, 1e9).Draw(rt, "page"),
			rapid.IntRange(0, 1e9).Draw(rt, "total"), rapid.IntRange(0, 1e9).Draw(rt, "seen"), rapid.StringMatching("-|[0-9a-f]{16}").Draw(rt, "before")}
		if back, ok := parsePosition(p.String()); !ok || back != p {
			rt.Fatalf("%+v came back as %+v, %v", p, back, ok)
		}
	})
}

func FuzzParsePosition(f *testing.F) {
	for _, s := range []string{"", "1 0 0 - ana/orders", "2 57 50 0123456789abcdef ana/or ders", "0 0 0 - a", "-1 0 0 - a", "1 -1 0 - a", "1 0 0 - ", "1 0 - a", "99999999999999999999 0 0 - a", "1  0 - a", "+1 0 0 - a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := parsePosition(s)
		switch {
		case !ok:
			if p != (position{}) {
				t.Errorf("%q is no position and gave %+v", s, p)
			}
		case s == "":
			if p != (position{}) {
				t.Errorf("the beginning is %+v", p)
			}
		case p.repo == "" || p.page < 1 || p.total < 0 || p.seen < 0:
			t.Errorf("%q gave %+v", s, p)
		default:
			if back, ok := parsePosition(p.String()); !ok || back != p {
				t.Errorf("%q gave %+v and then %+v", s, p, back)
			}
		}
	})
}

func TestRequiredScopes(t *testing.T) {
	t.Parallel()
	for message, want := range map[string][]string{
		"token does not have at least one of required scope(s), required=[write:repository], token scope=write:issue,read:user": {"write:repository"},
		"required=[a,b]":          {"a", "b"},
		"required=[a, b , c]":     {"a", "b", "c"},
		"required=[]":             nil,
		"required=[a":             nil,
		"required scope(s): a":    nil,
		"":                        nil,
		"required=[a] required=[": {"a"},
	} {
		if got := requiredScopes(message); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

// T16, T20, T35: Gitea's own ways to refuse; nil leaves it to the common table.
// The texts are the ones that Gitea 1.26 answered with.
// Guarantee: TIX7
func TestClassify(t *testing.T) {
	t.Parallel()
	const scope = `{"message":"token does not have at least one of required scope(s), required=[write:issue], token scope=read:issue","url":"http://x/api/swagger"}`
	type verdict struct {
		Code   connector.Code
		Effect connector.Disposition
		Scopes []string
	}
	none, refused := connector.DispositionNone, connector.DispositionNotApplied
	for _, c := range []struct {
		name, method string
		status       int
		body         string
		want         *verdict
	}{
		{"scope on a write", "POST", 403, scope, &verdict{connector.CodeScopeRequired, refused, []string{"write:issue"}}},
		{"scope on a read", "GET", 403, scope, &verdict{connector.CodeScopeRequired, none, []string{"write:issue"}}},
		{"another 403", "POST", 403, `{"message":"user is blocked by repository owner"}`, nil},
		{"403 with a page", "POST", 403, `<html>required scope</html>`, nil},
		{"403 without a body", "POST", 403, ``, nil},
		{"archived", "POST", 423, `{"message":"ana/moved is archived"}`, &verdict{connector.CodeConflict, refused, nil}},
		{"renamed, write", "POST", 301, ``, &verdict{connector.CodeMoved, refused, nil}},
		{"renamed, read", "GET", 301, ``, &verdict{connector.CodeMoved, none, nil}},
		{"302", "POST", 302, ``, nil},
		{"absent", "POST", 404, `{"errors":null,"message":"not found"}`, nil},
		{"title", "POST", 422, `{"message":"[Title]: Required"}`, nil},
		{"made", "POST", 201, `{}`, nil},
	} {
		e := Driver{}.Classify(connector.Request{Method: c.method}, connector.Response{Status: c.status, Body: []byte(c.body)})
		var got *verdict
		if e != nil {
			got = &verdict{e.Code, e.Effect, e.Scopes}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// T06: the address of the created issue is what proves the write.
// Guarantee: TIX6
func TestCreatedNeedsAnAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body, id string
		fails          bool
	}{
		{"whole", `{"number":7,"title":"t","body":"b","state":"open","repository":{"id":1,"full_name":"ana/orders"}}`, "ana/orders#7", false},
		{"a field of another shape", `{"number":7,"title":{},"repository":{"full_name":"ana/orders"}}`, "ana/orders#7", true},
		{"no number", `{"title":"t","repository":{"full_name":"ana/orders"}}`, "", true},
		{"no repository", `{"number":7,"title":"t"}`, "", true},
		{"null repository", `{"number":7,"repository":null}`, "", true},
		{"a number as text", `{"number":"7","repository":{"full_name":"ana/orders"}}`, "", true},
		{"garbage behind", `{"number":7,"repository":{"full_name":"ana/orders"}}{`, "", true},
		{"a list", `[]`, "", true},
		{"nothing", ``, "", true},
	} {
		got, err := Driver{}.Created(connector.Response{Status: 201, Body: []byte(c.body)})
		if got.ID != c.id || (err != nil) != c.fails {
			t.Errorf("%s: id %q, error %v", c.name, got.ID, err)
		}
	}
}
