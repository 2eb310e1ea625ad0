package vendortypes

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// desk is a connector as a host mounts it: schemas derived, given and nested.
func desk() connector.Connector {
	spec := func(name string, effect connector.Effect) connector.Spec {
		return connector.Spec{Name: name, Title: "T", Doc: "Does <this> & \"that\" – ünïcode.", Effect: effect,
			Sensitivity: connector.SensitivityInternal, Scopes: []string{"s"}, Deprecated: "soon"}
	}
	given := spec("desk.given", connector.EffectRead)
	given.Input = []byte(`{"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]+$","maxLength":9007199254740993},` +
		`"kind":{"enum":["a",1,null]},"deep":{"$ref":"#/$defs/node"},"any":{"anyOf":[{"type":"string"},{"type":"null"}]}},` +
		`"required":["id"],"additionalProperties":false,"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}},"additionalProperties":false}}}`)
	type derived struct {
		Title  string   `json:"title" jsonschema:"what it is called"`
		Labels []string `json:"labels,omitempty"`
		Where  struct {
			Line *int `json:"line"`
		} `json:"where"`
	}
	type listed struct {
		Query string `json:"query"`
	}
	return connector.Connector{ID: "desk", Version: "1.0.0", Operations: []connector.Operation{
		connector.Read(given, func(context.Context, *connector.Access, map[string]any) (out listed, err error) { return }),
		connector.Read(spec("desk.derived_2", connector.EffectRead), func(context.Context, *connector.Access, derived) (out listed, err error) { return }),
		connector.List(spec("desk.deep.list", connector.EffectRead), func(context.Context, *connector.Access, listed, connector.Position) (out connector.Page[derived], err error) {
			return
		}),
		connector.Write(spec("desk.write", connector.EffectIrreversible), connector.Steps[derived, listed]{
			Plan:   func(context.Context, *connector.Access, derived) (r connector.Request, err error) { return },
			Decode: connector.DecodeJSON[listed],
			ID:     func(l listed) string { return l.Query },
			Find: func(context.Context, *connector.Access, connector.OperationID, derived) (l listed, f connector.Found, err error) {
				return
			},
		}),
	}}
}

func results() []connector.Result {
	next := "c1_AAAA"
	return []connector.Result{
		{CallID: "call_b", Tool: "desk.deep.list", Status: connector.StatusPartial, Summary: "1 items",
			Data: json.RawMessage(`{"items":[{"title":"a < b & \"c\" \u2028 ünïcode","n":9007199254740993}]}`), NextCursor: &next},
		{CallID: "call_a", Tool: "desk.given", Status: connector.StatusError,
			Error: &connector.ErrorReport{Code: connector.CodeInvalidInput, Faults: []connector.Fault{{Pointer: "/id", Keyword: "required"}}}},
		{CallID: "call_c", Tool: "desk.write", Status: connector.StatusUnknown,
			Effect: connector.EffectReport{Disposition: connector.DispositionUnknown, Operation: "op_1"}},
	}
}

// same compares two JSON texts as values, with every digit of their numbers.
func same(t *testing.T, want, got []byte) {
	t.Helper()
	if diff := cmp.Diff(value(t, want), value(t, got)); diff != "" {
		t.Errorf("what went in and what came out (-in +out):\n%s", diff)
	}
}

func value(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// through decodes raw into a vendor's type and writes it again.
func through[T any](t *testing.T, raw []byte) (T, []byte) {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s does not read it: %v", reflect.TypeFor[T](), err)
	}
	return v, marshal(t, v)
}

// written are arguments as models write them, good and bad, and what must
// become of them: bad ones stay text, which no tool takes.
var written = []struct{ name, arguments, want string }{
	{"good", `{"id":"a","n":9007199254740993}`, `{"id":"a","n":9007199254740993}`},
	{"spaced", "{ \"id\" : \"a\" }", `{ "id" : "a" }`},
	{"empty", ``, `""`},
	{"cut off", `{"id":"a`, `"{\"id\":\"a"`},
	{"no object", `[1]`, `[1]`},
	{"prose", `sorry, "no"`, `"sorry, \"no\""`},
	{"twice", `{"id":"a","id":"b"}`, `{"id":"a","id":"b"}`},
}

// equal compares calls; arguments as text, because the digest is of text.
func equal(t *testing.T, want, got []connector.Call) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
