package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: CON3, CON5
func TestEveryFaultIsNamedAtOnceInStableOrder(t *testing.T) {
	t.Parallel()
	type faults = []connector.Fault
	for _, c := range []struct {
		name, tool, arguments string
		want                  faults
	}{
		{"many at once", "desk.search", `{"query":5,"page_size":500,"cursor":"","tenant":"x"}`,
			faults{{"/cursor", "minLength"}, {"/page_size", "maximum"}, {"/query", "type"}, {"/tenant", "additionalProperties"}}},
		{"page too large and a stranger", "desk.search", `{"query":"","page_size":500,"cursor":null,"tenant":"x"}`,
			faults{{"/page_size", "maximum"}, {"/tenant", "additionalProperties"}}},
		{"page too small", "desk.search", `{"query":"","page_size":0,"cursor":null}`, faults{{"/page_size", "minimum"}}},
		{"nothing given", "desk.search", `{}`, faults{{"/cursor", "required"}, {"/page_size", "required"}, {"/query", "required"}}},
		{"inside a list", "desk.create", `{"title":"x","labels":["a",2,null]}`, faults{{"/labels/1", "type"}, {"/labels/2", "type"}}},
		{"pointer is escaped", "desk.get", `{"id":"a","x/y~z":1}`, faults{{"/x~1y~0z", "additionalProperties"}}},
		{"number in a string", "desk.get", `{"id":"a","depth":"5"}`, faults{{"/depth", "type"}}},
		{"string in a number", "desk.get", `{"id":5}`, faults{{"/id", "type"}}},
		{"bool is not 1", "desk.get", `{"id":"a","depth":true}`, faults{{"/depth", "type"}}},
		{"null is not absent", "desk.get", `{"id":null}`, faults{{"/id", "type"}}},
		{"fraction", "desk.get", `{"id":"a","depth":5.5}`, faults{{"/depth", "type"}}},
		{"beyond any float", "desk.create", `{"title":"x","severity":1e400}`, faults{{"/severity", "number"}}},
		{"beyond exact integers", "desk.create", `{"title":"x","severity":9007199254740993}`, faults{{"/severity", "number"}}},
		{"beyond exact integers, negative", "desk.create", `{"title":"x","severity":-9007199254740993}`, faults{{"/severity", "number"}}},
		{"the same in an integer", "desk.get", `{"id":"a","depth":9007199254740993}`, faults{{"/depth", "number"}}},
		{"other case is another name", "desk.get", `{"ID":"a"}`, faults{{"/ID", "additionalProperties"}, {"/id", "required"}}},
		{"list", "desk.get", `[]`, faults{{"", "type"}}},
		{"text", "desk.get", `"id"`, faults{{"", "type"}}},
		{"null", "desk.get", `null`, faults{{"", "type"}}},
		{"nothing", "desk.get", ``, faults{{"", "json"}}},
		{"white space", "desk.get", " \n", faults{{"", "json"}}},
		{"cut off", "desk.get", `{"id":"a"`, faults{{"", "json"}}},
		{"trailing data", "desk.get", `{"id":"a"}{}`, faults{{"", "json"}}},
		{"same name twice", "desk.get", `{"id":"a","id":"b"}`, faults{{"", "json"}}},
		{"same name twice, spelled otherwise", "desk.get", `{"id":"a","\u0069d":"b"}`, faults{{"", "json"}}},
		{"same name twice, deep", "desk.create", `{"title":"x","labels":[{"a":1,"a":2}]}`, faults{{"", "json"}}},
		{"invalid UTF-8", "desk.get", "{\"id\":\"\xff\"}", faults{{"", "json"}}},
		{"lone surrogate", "desk.get", `{"id":"\ud800"}`, faults{{"", "json"}}},
		{"NUL outside a string", "desk.get", "{\"id\":\"a\"}\x00", faults{{"", "json"}}},
		{"byte order mark", "desk.get", "\ufeff{\"id\":\"a\"}", faults{{"", "json"}}},
		{"not a JSON number", "desk.get", `{"id":"a","depth":NaN}`, faults{{"", "json"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			for range 3 { // the order holds although maps are involved
				r := h.call(c.tool, c.arguments)
				if code(r) != "INVALID_INPUT" {
					t.Fatalf("code = %q, want INVALID_INPUT", code(r))
				}
				if diff := cmp.Diff(c.want, r.Error.Faults); diff != "" {
					t.Errorf("faults (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(map[string]int{"audit": 3}, h.seen()); diff != "" {
				t.Errorf("stages reached (-want +got):\n%s", diff)
			}
		})
	}
}

// Guarantee: CON5
func TestFiftyStrangersAreAllNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	arguments := map[string]any{"id": "n1"}
	var want []connector.Fault
	for i := range 50 {
		name := fmt.Sprintf("x%02d", i)
		arguments[name] = i
		want = append(want, connector.Fault{Pointer: "/" + name, Keyword: "additionalProperties"})
	}
	if diff := cmp.Diff(want, h.call("desk.get", text(t, arguments)).Error.Faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// Guarantee: CON3
func TestSchemasThatAModelSeesAreClosed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	definitions, err := h.runtime().Tools(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range definitions {
		names = append(names, d.Name)
		for _, raw := range []json.RawMessage{d.InputSchema, d.OutputSchema} {
			var s struct {
				Type string `json:"type"`
				Open *bool  `json:"additionalProperties"`
			}
			if err := json.Unmarshal(raw, &s); err != nil || s.Type != "object" || s.Open == nil || *s.Open {
				t.Errorf("%s has an open schema: %s", d.Name, raw)
			}
		}
		if d.Approval != (d.Name == "desk.create") {
			t.Errorf("%s: approval = %t", d.Name, d.Approval)
		}
	}
	if diff := cmp.Diff([]string{"desk.create", "desk.get", "desk.search"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// Guarantee: CON6, CON3
func TestArgumentsCannotCarryAuthority(t *testing.T) {
	t.Parallel()
	for _, stranger := range []string{"receipt", "approval_id", "approved", "operation_id", "connection_id", "tenant", "token", "intent", "url"} {
		h := newHarness(t)
		r := h.call("desk.create", fmt.Sprintf(`{"title":"x",%q:{"operation_id":"op_1","proof":"verified"}}`, stranger))
		want := []connector.Fault{{Pointer: "/" + stranger, Keyword: "additionalProperties"}}
		if diff := cmp.Diff(want, r.Error.Faults); diff != "" {
			t.Errorf("%s: faults (-want +got):\n%s", stranger, diff)
		}
		if r.Receipt != nil || len(h.ledger.rows) != 0 {
			t.Errorf("%s led to a receipt or an operation", stranger)
		}
	}
}

// Guarantee: CON6
func TestCallFromTextHasNoIntent(t *testing.T) {
	t.Parallel()
	var c connector.Call
	if err := json.Unmarshal([]byte(`{"call_id":"c","tool":"t","intent":"stolen","Intent":"stolen","arguments":{}}`), &c); err != nil {
		t.Fatal(err)
	}
	if c.Intent != "" {
		t.Errorf("intent = %q from text, want none", c.Intent)
	}
}

// Guarantee: CON3, CON5, RUN5
func TestAnyArgumentsAreRefusedOrFitTheSchema(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var got []createIn
	plan := h.toy.steps.Plan
	h.toy.steps.Plan = func(ctx context.Context, a *connector.Access, in createIn) (connector.Request, error) {
		got = append(got, in)
		return plan(ctx, a, in)
	}
	rapid.Check(t, func(rt *rapid.T) {
		got = nil
		arguments := jsonText().Draw(rt, "arguments")
		r := h.call("desk.create", arguments)
		var in createIn
		d := json.NewDecoder(strings.NewReader(arguments))
		d.DisallowUnknownFields()
		switch code(r) {
		case "INVALID_INPUT":
			if len(got) != 0 || len(r.Error.Faults) == 0 {
				rt.Fatalf("refused with faults %v, and Plan saw %v", r.Error.Faults, got)
			}
		case "APPROVAL_REQUIRED":
			if err := d.Decode(&in); err != nil {
				rt.Fatalf("accepted what encoding/json refuses: %v", err)
			}
			if len(got) == 1 && !cmp.Equal(in, got[0]) {
				rt.Fatalf("Plan got %+v, want %+v", got[0], in)
			}
		default:
			rt.Fatalf("ended as %s %s", r.Status, code(r))
		}
	})
}

// jsonText draws documents near the toy's write, so that some of them fit.
func jsonText() *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{`"x"`, `""`, `null`, `true`, `5`, `-0`, `1e3`, `0.5`, `1e400`, `9007199254740993`, `"\ud800"`, `"\u0000"`, `"é"`})
	var value *rapid.Generator[string]
	value = rapid.OneOf(scalar, rapid.Deferred(func() *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return "[" + strings.Join(rapid.SliceOfN(value, 0, 3).Draw(t, "items"), ",") + "]"
		})
	}))
	name := rapid.SampledFrom([]string{"title", "title", "title", "body", "severity", "labels", "Title", "tenant", "\\u0074itle"})
	object := rapid.Custom(func(t *rapid.T) string {
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			members = append(members, `"`+name.Draw(t, "name")+`":`+value.Draw(t, "value"))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
	return rapid.OneOf(object, object, object, value, rapid.String())
}

func FuzzExecuteArguments(f *testing.F) {
	for _, seed := range []string{
		`{"id":"n1"}`, `{"id":"n1","depth":3}`, `{"id":"a","id":"b"}`, `{"id":"a","ID":"b"}`, `{"id":"\ud800"}`, "{\"id\":\"\x00\"}",
		`{"id":"a"}x`, `[]`, ``, `null`, `{"depth":1e400,"id":""}`, "\ufeff{}", strings.Repeat("[", 20000), `{"":{"":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	h := newHarness(f)
	var handled *getIn
	h.toy.get = func(_ context.Context, _ *connector.Access, in getIn) (note, error) {
		handled = &in
		return note{"n1", "one"}, nil
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		handled = nil
		r := h.execute(context.Background(), connector.Call{Tool: "desk.get", Arguments: arguments})
		switch code(r) {
		case "":
			var in getIn
			if err := json.Unmarshal(arguments, &in); err != nil || handled == nil || *handled != in {
				t.Fatalf("handler got %+v from %q (%v)", handled, arguments, err)
			}
		case "INVALID_INPUT":
			if handled != nil {
				t.Fatalf("handler ran on refused arguments %q", arguments)
			}
		default:
			t.Fatalf("%q ended as %s", arguments, code(r))
		}
	})
}
