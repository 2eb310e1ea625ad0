package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector/surface"
	"github.com/drawbridge-dev/drawbridge/connector/toolshape"
)

// definitionChecks look at the connector's value, before anything runs.
var definitionChecks = []check{
	{"A1", "CON3", "The connector loads: everything is classified, and no fact of the host is a parameter of a model.", Unit, nil, lintClean},
	{"A2", "CON3", "Every schema is closed at every depth, and small enough for a model to be shown.", Unit, nil, schemasClosed},
	{"A3", "CON7", "The surface is the one that the lock file promises.", Unit, nil, surfaceLocked},
	{"A4", "CON2", "A write is declared no easier to take back than the provider makes it.", Unit, nil, effectDeclared},
	{"A7", "TST1", "From the same answers of the provider come the same requests and the same results as in the files.", Unit, []string{"A1"}, fixedFiles},
	{"A6", "RUN8", "Through the shapes of OpenAI and Anthropic a model is shown the same tools, and its call arrives unchanged.", Unit, []string{"A1"}, sameShapes},
}

func lintClean(t *trial) {
	if t.lint != nil {
		t.errorf("%v", t.lint)
	}
}

const (
	maxDepth  = 12
	maxSchema = 64 << 10
	maxEnum   = 500
)

func schemasClosed(t *trial) {
	for _, d := range t.subject.Connector.Definitions() {
		for where, raw := range map[string]json.RawMessage{"input": d.InputSchema, "output": d.OutputSchema} {
			if len(raw) == 0 {
				continue // A1 says why there is none
			}
			if len(raw) > maxSchema {
				t.errorf("%s: the %s schema has %d bytes, over %d", d.Name, where, len(raw), maxSchema)
			}
			var schema any
			t.must(json.Unmarshal(raw, &schema))
			open(schema, "", 0, func(pointer, why string) { t.errorf("%s: %s schema at %q: %s", d.Name, where, pointer, why) })
		}
	}
}

// open reports objects that take unknown properties.
func open(schema any, pointer string, depth int, report func(pointer, why string)) {
	if depth > maxDepth {
		report(pointer, "is too deep")
		return
	}
	switch s := schema.(type) {
	case []any:
		for i, e := range s {
			open(e, fmt.Sprintf("%s/%d", pointer, i), depth+1, report)
		}
	case map[string]any:
		_, has := s["properties"]
		if (has || declares(s["type"], "object")) && s["additionalProperties"] != false && s["unevaluatedProperties"] != false {
			report(pointer, "is open")
		}
		if e, ok := s["enum"].([]any); ok && len(e) > maxEnum {
			report(pointer, "has too many values")
		}
		for key, v := range s {
			switch key {
			case "const", "enum", "default", "examples", "required", "type", "description":
			case "properties", "$defs", "patternProperties":
				named, _ := v.(map[string]any)
				for name, p := range named {
					open(p, pointer+"/"+key+"/"+name, depth+1, report)
				}
			default:
				open(v, pointer+"/"+key, depth+1, report)
			}
		}
	}
}

func declares(types any, want string) bool {
	if s, ok := types.(string); ok {
		return s == want
	}
	list, _ := types.([]any)
	return slices.Contains(list, any(want))
}

func surfaceLocked(t *trial) {
	if t.subject.LockFile == "" {
		t.notClaimed("the subject names no lock file")
	}
	want, err := os.ReadFile(t.subject.LockFile)
	t.must(err)
	var got bytes.Buffer
	t.must(surface.Write(&got, surface.Of(t.subject.Connector)))
	if got.String() != string(want) {
		t.errorf("the code is not what %s says; drawbridge surface check tells the difference", filepath.Base(t.subject.LockFile))
	}
}

func effectDeclared(t *trial) {
	if t.subject.Undo == 0 {
		t.notClaimed("the subject does not say what the provider documents about taking the write back")
	}
	for _, d := range t.subject.Connector.Definitions() {
		if d.Name == t.subject.Write.Tool && d.Effect < t.subject.Undo {
			t.errorf("%s is declared as %s, the provider documents %s", d.Name, d.Effect, t.subject.Undo)
		}
	}
}

func sameShapes(t *trial) {
	definitions := t.subject.Connector.Definitions()
	for _, s := range []struct {
		shape  toolshape.Shape
		schema string // where it is in one tool
		answer func(name string, arguments json.RawMessage) []byte
	}{
		{toolshape.OpenAI, "parameters", openAIAnswer},
		{toolshape.Anthropic, "input_schema", anthropicAnswer},
	} {
		raw, err := s.shape.Tools(definitions)
		if err != nil {
			t.errorf("%s: %v", s.shape, err)
			continue
		}
		var tools []map[string]json.RawMessage
		t.must(json.Unmarshal(raw, &tools))
		if len(tools) != len(definitions) {
			t.errorf("%s shows %d tools of %d", s.shape, len(tools), len(definitions))
			continue
		}
		for i, d := range definitions {
			tool := tools[i]
			if f, ok := tool["function"]; ok {
				tool = nil
				t.must(json.Unmarshal(f, &tool))
			}
			var name string
			t.must(json.Unmarshal(tool["name"], &name))
			if !sameJSON(tool[s.schema], d.InputSchema) {
				t.errorf("%s shows another input schema of %s", s.shape, d.Name)
			}
			arguments := json.RawMessage(`{"a":[1,"x\u202e"],"tenant":"other"}`)
			calls, err := s.shape.Calls(s.answer(name, arguments))
			if err != nil || len(calls) != 1 {
				t.errorf("%s: a call of %s does not arrive: %v", s.shape, d.Name, err)
				continue
			}
			if c := calls[0]; c.Tool != d.Name || c.ID != "call-1" || c.Intent != "" || !sameJSON(c.Arguments, arguments) {
				t.errorf("%s: a call of %s arrives as another one", s.shape, d.Name)
			}
		}
	}
}

func openAIAnswer(name string, arguments json.RawMessage) []byte {
	return jsonOf(map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
		"id": "call-1", "type": "function", "function": map[string]any{"name": name, "arguments": string(arguments)}}}})
}

func anthropicAnswer(name string, arguments json.RawMessage) []byte {
	return jsonOf(map[string]any{"role": "assistant", "content": []any{map[string]any{
		"type": "tool_use", "id": "call-1", "name": name, "input": arguments}}})
}

func jsonOf(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and text of this package
	}
	return b
}

// sameJSON compares two documents by value.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && bytes.Equal(jsonOf(x), jsonOf(y))
}
