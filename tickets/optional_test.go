package tickets

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Three answers of a provider stay three: not mentioned, null, and a value,
// also when that value is the type's zero.
func TestOptionalKeepsMissingNullAndValueApart(t *testing.T) {
	t.Parallel()
	type box struct {
		V Optional[string] `json:"v,omitzero"`
	}
	for _, c := range []struct {
		name  string
		in    box
		wire  string
		value string
		has   bool
	}{
		{"missing", box{}, `{}`, "", false},
		{"null", box{Null[string]()}, `{"v":null}`, "", false},
		{"empty value", box{Some("")}, `{"v":""}`, "", true},
		{"value", box{Some("high")}, `{"v":"high"}`, "high", true},
		{"of a nil pointer", box{Of[string](nil)}, `{"v":null}`, "", false},
		{"of a pointer", box{Of(new(string))}, `{"v":""}`, "", true},
	} {
		wire, err := json.Marshal(c.in)
		if err != nil || string(wire) != c.wire {
			t.Errorf("%s: wire %s, %v; want %s", c.name, wire, err, c.wire)
		}
		var back box
		if err := json.Unmarshal([]byte(c.wire), &back); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if v, has := back.V.Get(); v != c.value || has != c.has || back.V.IsZero() != c.in.V.IsZero() {
			t.Errorf("%s came back as %q, has %v, missing %v", c.name, v, has, back.V.IsZero())
		}
	}
	if err := json.Unmarshal([]byte(`{"v":7}`), new(box)); err == nil {
		t.Error("a number was taken for text")
	}
}

func TestOptionalRoundTrip(t *testing.T) {
	t.Parallel()
	type box struct {
		A Optional[int]    `json:"a,omitzero"`
		B Optional[bool]   `json:"b,omitzero"`
		C Optional[string] `json:"c,omitzero"`
	}
	shape := func(b box) (out []any) {
		a, hasA := b.A.Get()
		v, hasB := b.B.Get()
		c, hasC := b.C.Get()
		return []any{a, hasA, b.A.IsZero(), v, hasB, b.B.IsZero(), c, hasC, b.C.IsZero()}
	}
	rapid.Check(t, func(rt *rapid.T) {
		in := box{draw(rt, rapid.Int()), draw(rt, rapid.Bool()), draw(rt, rapid.String())}
		wire, err := json.Marshal(in)
		if err != nil {
			rt.Fatal(err)
		}
		var back box
		if err := json.Unmarshal(wire, &back); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(shape(in), shape(back)); diff != "" {
			rt.Fatalf("%s (-in +back):\n%s", wire, diff)
		}
	})
}

func draw[T any](rt *rapid.T, g *rapid.Generator[T]) Optional[T] {
	switch rapid.IntRange(0, 2).Draw(rt, "kind") {
	case 0:
		return Optional[T]{}
	case 1:
		return Null[T]()
	}
	return Some(g.Draw(rt, "value"))
}
