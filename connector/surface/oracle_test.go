package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// services lets everything through: the tests are about schemas.
type services struct{ connector.Operations }

var caller = connector.Caller{Tenant: "acme", Principal: "alice"}

func (services) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	return connector.Decision{Allow: true}, nil
}

func (services) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return true, nil
}

func (services) Resolve(_ context.Context, c connector.Caller, provider string, _ []string) (connector.Connection, error) {
	return connector.Connection{ID: "con-1", Tenant: c.Tenant, Principal: c.Principal, Provider: provider}, nil
}

func (services) Current(context.Context, connector.Connection) error { return nil }

func (services) Do(context.Context, connector.Connection, connector.Class, connector.Request) (connector.Response, error) {
	return connector.Response{Status: 500}, nil
}

func (services) Record(context.Context, connector.AuditRecord) error { return nil }

func runtime(t interface{ Fatal(...any) }, c connector.Connector) *connector.Runtime {
	rt, err := connector.New(connector.Config{Connectors: []connector.Connector{c}, Policy: services{}, Consent: services{},
		Connections: services{}, Transport: services{}, Operations: services{}, Auditor: services{}})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// takes asks the product itself whether a tool with this input schema takes a
// document.
func takes(rt *connector.Runtime, document string) bool {
	r := rt.Execute(context.Background(), caller, connector.Call{Tool: "desk.get", Arguments: json.RawMessage(document)})
	return r.Error == nil || r.Error.Code != connector.CodeInvalidInput
}

var (
	values = []string{`"a"`, `"b"`, `"abc"`, `""`, `0`, `1`, `2`, `3`, `1.5`, `-1`, `null`, `true`, `["a"]`, `["b","b"]`, `[1]`, `[]`, `{"x":"a"}`, `{"x":1}`, `{}`, `{"y":1}`}
	places = []string{
		`{"type":"string"}`, `{"type":"string","minLength":1}`, `{"type":"string","maxLength":1}`, `{"type":"string","pattern":"^a"}`,
		`{"type":["string","null"]}`, `{"enum":["a","b"]}`, `{"enum":["a"]}`, `{"enum":["a",1]}`, `{"enum":["1"]}`, `{"const":1}`, `{"type":"string","enum":["a"]}`,
		`{"type":"integer"}`, `{"type":"number"}`, `{"type":"integer","minimum":1}`, `{"type":"integer","maximum":1}`, `{"type":"number","exclusiveMinimum":1}`,
		`{"type":"integer","minimum":1,"exclusiveMinimum":0}`, `{"type":"number","multipleOf":2}`, `{"type":"boolean"}`,
		`{"type":"array","items":{"type":"string"}}`, `{"type":"array","items":{"type":["string","integer"]}}`, `{"type":"array","items":{"type":"string"},"minItems":1}`,
		`{"type":"array","items":{"type":"string"},"uniqueItems":true}`,
		`{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}`,
		`{"type":"object","properties":{"x":{"type":["string","integer"]},"y":{"type":"integer"}},"additionalProperties":false}`,
		`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `{"anyOf":[{"type":"string"},{"type":"integer","minimum":1}]}`, `{"anyOf":[{"type":"string"}],"maxLength":1}`,
		`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `{"oneOf":[{"type":"number"},{"type":"integer"}]}`,
		`{"type":"string","not":{"const":"a"}}`, `{"$ref":"#/$defs/t"}`, `{"type":"array","items":{"$ref":"#/$defs/t"}}`, `{"type":"array","items":{"$ref":"#/$defs/t"},"contains":{"$ref":"#/$defs/t"}}`,
		`{"type":"array","items":{"type":"integer"},"prefixItems":[{"type":"string"}]}`, `{"type":"array","items":{"type":"string"},"contains":{"const":"a"},"minContains":0}`,
	}
	definitions = []string{`{"type":"string"}`, `{"type":"integer"}`, `{"enum":["a",1]}`}
)

func schemas(t *rapid.T, label string) string {
	var properties, needed []string
	for _, name := range []string{"a", "b"} {
		if rapid.IntRange(0, 3).Draw(t, label+" has "+name) > 0 {
			properties = append(properties, fmt.Sprintf("%q:%s", name, rapid.SampledFrom(places).Draw(t, label+" "+name)))
			if rapid.Bool().Draw(t, label+" needs "+name) {
				needed = append(needed, fmt.Sprintf("%q", name))
			}
		}
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false,"$defs":{"t":%s}}`,
		strings.Join(properties, ","), strings.Join(needed, ","), rapid.SampledFrom(definitions).Draw(t, label+" definition"))
}

// documents are all objects of the values, small enough to try them all.
func documents() []string {
	var all []string
	with := func(name string) []string {
		members := []string{""}
		for _, v := range values {
			members = append(members, fmt.Sprintf("%q:%s", name, v))
		}
		return members
	}
	for _, a := range with("a") {
		for _, b := range with("b") {
			all = append(all, "{"+strings.Trim(a+","+b, ",")+"}")
		}
	}
	return all
}

// If Diff finds nothing breaking in an input, then whatever the old version took
// the new one takes. The judge is the runtime that checks real calls.
// Guarantee: CON7
func TestCompatibleInputsAreTaken(t *testing.T) {
	base, all := surfaceOf(t), documents()
	compatible := 0
	rapid.Check(t, func(t *rapid.T) {
		old, new := schemas(t, "old"), schemas(t, "new")
		if rapid.IntRange(0, 2).Draw(t, "small change") > 0 { // two schemas at random have little in common
			new = strings.Replace(old, rapid.SampledFrom(places).Draw(t, "from"), rapid.SampledFrom(places).Draw(t, "to"), 1)
			new = strings.Replace(new, `"t":`+rapid.SampledFrom(definitions).Draw(t, "from t"), `"t":`+rapid.SampledFrom(definitions).Draw(t, "to t"), 1)
		}
		for _, l := range Diff(with(base, old, ""), with(base, new, "")) {
			if l.Kind == Breaking {
				return
			}
		}
		compatible++
		before, after := runtime(t, desk(old, plainOutput)), runtime(t, desk(new, plainOutput))
		for _, d := range all {
			if takes(before, d) && !takes(after, d) {
				t.Fatalf("%s was taken and is refused\nold %s\nnew %s", d, old, new)
			}
		}
	})
	if compatible == 0 {
		t.Error("no pair was compatible: nothing was judged")
	}
}

// drawn is a surface of anything that the rules know.
func drawn(t *rapid.T, base Surface, label string) Surface {
	s := with(base, schemas(t, label+" input"), schemas(t, label+" output"))
	s.Manifest.Capabilities = slices.Clone(s.Manifest.Capabilities)
	c := &s.Manifest.Capabilities[0]
	c.Effect = connector.Effect(rapid.IntRange(1, 4).Draw(t, label+" effect"))
	c.Sensitivity = connector.Sensitivity(rapid.IntRange(1, 4).Draw(t, label+" sensitivity"))
	c.Scopes = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"notes", "profile", "admin"}), rapid.ID[string]).Draw(t, label+" scopes")
	c.Deprecated = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, label+" deprecated")
	s.Manifest.Owner = rapid.SampledFrom([]string{"tests", "strangers"}).Draw(t, label+" owner")
	s.Manifest.Output.Excluded = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"private", "notes"}), rapid.ID[string]).Draw(t, label+" excluded")
	if rapid.Bool().Draw(t, label+" lacks the write") {
		s.Manifest.Capabilities, s.Tools = s.Manifest.Capabilities[:1], s.Tools[:1]
	}
	return s
}

// A surface does not differ from itself; what differs one way differs the other
// way, too, at the same places; and what widens one way narrows the other way.
func TestDiffHasTwoDirections(t *testing.T) {
	base := surfaceOf(t)
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn(t, base, "a"), drawn(t, base, "b")
		if same := Diff(a, a); len(same) > 0 {
			t.Fatalf("a surface differs from itself: %v", same)
		}
		forward, backward := Diff(a, b), Diff(b, a)
		if diff := cmp.Diff(subjects(forward), subjects(backward)); diff != "" {
			t.Fatalf("the directions differ in other places:\n%s", diff)
		}
		for _, l := range forward {
			if l.Kind == NeedsConsent && strings.Contains(l.Reason, "scopes") && slices.Contains(backward, l) {
				t.Fatalf("both directions widen: %s", l)
			}
		}
		x, y := a.Manifest.Capabilities[0], b.Manifest.Capabilities[0]
		wider := y.Effect > x.Effect || y.Sensitivity > x.Sensitivity || len(missing(y.Scopes, x.Scopes)) > 0
		asked := slices.ContainsFunc(forward, func(l Line) bool { return l.Kind == NeedsConsent && l.Subject == x.Name })
		if wider != asked {
			t.Fatalf("wider is %v, consent asked is %v: %v", wider, asked, forward)
		}
	})
}

func subjects(all []Line) []string {
	var s []string
	for _, l := range all {
		s = append(s, l.Subject)
	}
	slices.Sort(s)
	return slices.Compact(s)
}
