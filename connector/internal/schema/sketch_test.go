package schema

import (
	"encoding/json"
	"os"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// The schema has every keyword that a sketch knows.
const sketchable = `{"type":"object","additionalProperties":false,"required":["id","items","state"],"properties":{
	"id":{"type":"string","minLength":1,"maxLength":6},"state":{"enum":["open","closed",null,3]},"n":{"type":"integer"},"f":{"type":["number","null"]},
	"b":{"type":"boolean","description":"d"},"items":{"type":"array","minItems":1,"maxItems":3,"items":{"$ref":"#/$defs/item"}},"name/~\"":{"type":"string"}},
	"$defs":{"item":{"type":"object","additionalProperties":false,"required":["x"],"properties":{"x":{"type":["string","null"]},"y":{"type":"array","items":{"type":"integer"}}}}}}`

type sketched struct {
	ID    string `json:"id"`
	State any    `json:"state"`
	N     int    `json:"n,omitempty"`
	F     any    `json:"f,omitempty"`
	B     bool   `json:"b,omitempty"`
	Items []any  `json:"items"`
}

func sketchSchema(t testing.TB) *Schema {
	t.Helper()
	s, err := For[map[string]any]([]byte(sketchable), nil)
	if err != nil || s.sketch == nil {
		t.Fatalf("no sketch: %v", err)
	}
	return s
}

// TestASketchNeverAcceptsWhatTheSchemaRefuses compares the two on documents
// around the schema: mostly right, wrong in one place or several.
// Guarantee: CON4
func TestASketchNeverAcceptsWhatTheSchemaRefuses(t *testing.T) {
	s := sketchSchema(t)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		raw, err := jsonv2.Marshal(aroundSchema(t))
		if err != nil {
			t.Skip("not encodable")
		}
		quick, faults := s.sketch.accepts(raw), s.validate(raw)
		if quick && len(faults) > 0 {
			t.Fatalf("accepted %s, which breaks the schema at %v", raw, faults)
		}
		if quick {
			accepted++
		}
		if (s.Conforms(raw) == nil) != (len(faults) == 0) {
			t.Fatalf("conforms and the validator differ about %s", raw)
		}
	})
	if accepted == 0 {
		t.Error("the sketch accepted nothing: it serves no purpose")
	}
}

func aroundSchema(t *rapid.T) any {
	word := rapid.SampledFrom([]string{"", "a", "open", "closed", "toolong", "ü", "\x00", "\"", "<b>"})
	scalar := rapid.OneOf(
		rapid.Map(word, func(s string) any { return s }),
		rapid.SampledFrom([]any{nil, true, false, 0, 3, -1, 2.5, 1e30, 3.0, json.Number("3.0"), json.Number("1E2")}),
	)
	item := rapid.Custom(func(t *rapid.T) any {
		m := map[string]any{"x": rapid.SampledFrom([]any{"v", nil, "", 1}).Draw(t, "x")}
		if rapid.Bool().Draw(t, "has y") {
			m["y"] = rapid.SliceOfN(scalar, 0, 3).Draw(t, "y")
		}
		if rapid.IntRange(0, 5).Draw(t, "extra") == 0 {
			m["z"] = 1
		}
		return m
	})
	doc := map[string]any{"id": "a", "state": "open", "items": []any{map[string]any{"x": "v"}}}
	if rapid.IntRange(0, 3).Draw(t, "plain") == 0 {
		return doc // right, so that the sketch is seen to accept
	}
	doc["id"] = rapid.SampledFrom([]any{"a", "abcdef", "abcdefg", "üüüüüü", "", nil}).Draw(t, "id")
	doc["state"] = rapid.SampledFrom([]any{"open", "closed", nil, 3, 3.0, "other"}).Draw(t, "state")
	doc["items"] = rapid.SliceOfN(item, 0, 4).Draw(t, "items")
	for _, name := range []string{"n", "f", "b", "name/~\"", "unknown"} {
		if rapid.IntRange(0, 3).Draw(t, "has "+name) == 0 {
			doc[name] = scalar.Draw(t, name)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "drop") == 0 {
		delete(doc, rapid.SampledFrom([]string{"id", "state", "items"}).Draw(t, "which"))
	}
	if rapid.IntRange(0, 19).Draw(t, "not an object") == 0 {
		return scalar.Draw(t, "scalar")
	}
	return doc
}

func TestASketchStandsAsideForWhatItDoesNotKnow(t *testing.T) {
	for _, given := range []string{
		`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","pattern":"^x$"}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"a":{"anyOf":[{"type":"string"}]}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","minimum":3}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"a":{"const":1}}}`,
	} {
		s, err := For[map[string]any]([]byte(given), nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.sketch != nil {
			t.Errorf("%s has a sketch", given)
		}
	}
}

// TestTheTicketSchemasAreQuick keeps the common results on the quick way.
func TestTheTicketSchemasAreQuick(t *testing.T) {
	for _, name := range []string{"search.output", "ticket.output"} {
		raw, err := os.ReadFile("../../../tickets/tools/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		s, err := For[map[string]any](raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.sketch == nil {
			t.Errorf("%s has no sketch", name)
		}
	}
}

func BenchmarkConforms(b *testing.B) {
	s := sketchSchema(b)
	raw, err := jsonv2.Marshal(sketched{ID: "a", State: "open", Items: []any{map[string]any{"x": "v"}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("sketch", func(b *testing.B) {
		for b.Loop() {
			if !s.sketch.accepts(raw) {
				b.Fatal("not accepted")
			}
		}
	})
	b.Run("validator", func(b *testing.B) {
		for b.Loop() {
			if len(s.validate(raw)) > 0 {
				b.Fatal("faults")
			}
		}
	})
}
