package toolshape

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

var update = flag.Bool("update", false, "rewrite golden files")

var shapes = []Shape{OpenAI, OpenAIResponses, Anthropic}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, got)
	}
	pretty.WriteByte('\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), pretty.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func definitions() []connector.Definition {
	return []connector.Definition{
		{
			Name: "tickets.get", Title: "Get a ticket", Description: "Reads one ticket <by id> & its state.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"Its id."}},"required":["id"],"additionalProperties":false}`),
			Effect:      connector.EffectRead, Sensitivity: connector.SensitivityInternal,
		},
		{
			Name: "tickets.search", Title: "Search", Description: "Searches tickets.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},"page_size":{"type":"integer","minimum":1,"maximum":50},"cursor":{"type":["string","null"],"minLength":1,"maxLength":4096}},"required":["query","page_size","cursor"],"additionalProperties":false}`),
			Effect:      connector.EffectRead, Sensitivity: connector.SensitivityInternal,
		},
		{
			Name: "tickets.create_v1", Title: "Create", Description: "Creates one ticket.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}}},"required":["title"],"additionalProperties":false}`),
			Effect:      connector.EffectIrreversible, Sensitivity: connector.SensitivityInternal,
			Approval: true, Deprecated: "use tickets.create",
		},
	}
}

func results() []connector.Result {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	next := "c1_AAAA"
	return []connector.Result{
		{CallID: "call_b", Tool: "tickets.search", Status: connector.StatusPartial, Summary: "1 items, and more behind next_cursor",
			Data:       json.RawMessage(`{"items":[{"title":"a < b & \"c\""}]}`),
			Coverage:   connector.Coverage{Missing: []connector.Missing{{What: "items", Reason: "more_pages"}}},
			NextCursor: &next,
			Provenance: &connector.Provenance{Connector: "tickets", Version: "1.0.0", Provider: "example", ProviderVersion: "1", FetchedAt: at}},
		{CallID: "call_a", Tool: "tickets.get", Status: connector.StatusEmpty, Summary: "nothing matched", Coverage: connector.Coverage{Complete: true}},
		{CallID: "call_c", Tool: "tickets.get", Status: connector.StatusError, Error: &connector.ErrorReport{
			Code: connector.CodeInvalidInput, Message: "the arguments do not fit the tool's schema", Next: connector.NextFixInput,
			Faults: []connector.Fault{{Pointer: "/id", Keyword: "required"}}}},
		{CallID: "call_d", Tool: "tickets.create_v1", Status: connector.StatusUnknown,
			Effect: connector.EffectReport{Disposition: connector.DispositionUnknown, Operation: "op_1"},
			Error:  &connector.ErrorReport{Code: connector.CodeOutcomeUnknown, Message: "it may have been applied", Next: connector.NextLookUpOperation}},
		{CallID: "call_e", Step: "s1", Tool: "tickets.get", Status: connector.StatusSuccess, Data: json.RawMessage(`{"id":"1"}`),
			Coverage: connector.Coverage{Complete: true}},
	}
}

// Guarantee: RUN8
func TestToolsInEachShape(t *testing.T) {
	for _, s := range shapes {
		got, err := s.Tools(definitions())
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		golden(t, "tools_"+s.String(), got)
	}
}

// Guarantee: RUN8
func TestResultsInEachShape(t *testing.T) {
	for _, s := range shapes {
		got, err := s.Results(results())
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		golden(t, "results_"+s.String(), got)
	}
}

// Guarantee: CON3
func TestModelsSeeTheSchemaThatIsEnforced(t *testing.T) {
	for _, s := range shapes {
		raw, err := s.Tools(definitions())
		if err != nil {
			t.Fatal(err)
		}
		var tools []struct {
			Function struct {
				Parameters json.RawMessage `json:"parameters"`
			} `json:"function"`
			Parameters  json.RawMessage `json:"parameters"`
			InputSchema json.RawMessage `json:"input_schema"`
		}
		if err := json.Unmarshal(raw, &tools); err != nil {
			t.Fatal(err)
		}
		for i, d := range definitions() {
			got := map[Shape]json.RawMessage{OpenAI: tools[i].Function.Parameters, OpenAIResponses: tools[i].Parameters, Anthropic: tools[i].InputSchema}[s]
			if string(got) != string(d.InputSchema) {
				t.Errorf("%v shows %s of %s, want %s", s, got, d.Name, d.InputSchema)
			}
		}
	}
}

// Guarantee: RUN3
func TestContentIsTheWholeResultUnderItsCallID(t *testing.T) {
	for _, s := range shapes {
		raw, err := s.Results(results())
		if err != nil {
			t.Fatal(err)
		}
		var answers []struct {
			ToolCallID string `json:"tool_call_id"`
			CallID     string `json:"call_id"`
			ToolUseID  string `json:"tool_use_id"`
			Content    string `json:"content"`
			Output     string `json:"output"`
			IsError    bool   `json:"is_error"`
		}
		if err := json.Unmarshal(raw, &answers); err != nil {
			t.Fatal(err)
		}
		if len(answers) != len(results()) {
			t.Fatalf("%v: %d answers, want %d", s, len(answers), len(results()))
		}
		for i, r := range results() {
			a := answers[i]
			if id := a.ToolCallID + a.CallID + a.ToolUseID; id != r.CallID {
				t.Errorf("%v: answer %d is for %q, want %q", s, i, id, r.CallID)
			}
			var got, want any
			plain, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(plain, &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(a.Content+a.Output), &got); err != nil {
				t.Fatalf("%v: the content is not JSON: %v", s, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v: content (-want +got):\n%s", s, diff)
			}
			failed := r.Status == connector.StatusError || r.Status == connector.StatusUnknown
			if s == Anthropic && a.IsError != failed {
				t.Errorf("is_error of a result with status %s = %v", r.Status, a.IsError)
			}
		}
	}
}

func TestResultsThatNoVendorCouldTake(t *testing.T) {
	for _, s := range shapes {
		if got, err := s.Results([]connector.Result{{Status: connector.StatusEmpty}}); err == nil {
			t.Errorf("%v: a result without a call id became %s", s, got)
		}
		if got, err := s.Results([]connector.Result{{CallID: "c", Data: json.RawMessage(`{"a":`)}}); err == nil {
			t.Errorf("%v: data that isn't JSON became %s", s, got)
		}
		if got, err := s.Results(nil); err != nil || string(got) != "[]" {
			t.Errorf("%v: Results(nil) = %s, %v", s, got, err)
		}
	}
}

func TestDefinitionsThatNoVendorCouldTake(t *testing.T) {
	good := definitions()[0]
	with := func(change func(*connector.Definition)) connector.Definition {
		d := good
		change(&d)
		return d
	}
	named := func(name string) connector.Definition {
		return with(func(d *connector.Definition) { d.Name = name })
	}
	for why, list := range map[string][]connector.Definition{
		"no dot":      {named("tickets")},
		"hyphen":      {named("tickets.get-one")},
		"capitals":    {named("tickets.Get")},
		"line break":  {named("tickets.get\n")},
		"empty part":  {named("tickets..get")},
		"65 long":     {named("tickets." + strings.Repeat("a", 57))},
		"empty":       {named("")},
		"twice":       {good, good},
		"no schema":   {with(func(d *connector.Definition) { d.InputSchema = nil })},
		"true schema": {with(func(d *connector.Definition) { d.InputSchema = json.RawMessage("true") })},
		"list schema": {with(func(d *connector.Definition) { d.InputSchema = json.RawMessage(`{"type":"array"}`) })},
		"not JSON":    {with(func(d *connector.Definition) { d.InputSchema = json.RawMessage(`{"type":"object"`) })},
	} {
		for _, s := range shapes {
			if got, err := s.Tools(list); err == nil {
				t.Errorf("%v, %s: no error, and %s", s, why, got)
			}
		}
	}
	for _, s := range shapes {
		if _, err := s.Tools([]connector.Definition{named("tickets." + strings.Repeat("a", 56))}); err != nil {
			t.Errorf("%v: a name of 64 characters: %v", s, err)
		}
	}
}

func TestZeroShapeFails(t *testing.T) {
	for _, s := range []Shape{0, Anthropic + 1, -1} {
		if _, err := s.Tools(nil); err == nil {
			t.Errorf("Shape(%d).Tools: no error", s)
		}
		if _, err := s.Calls([]byte("[]")); err == nil {
			t.Errorf("Shape(%d).Calls: no error", s)
		}
		if _, err := s.Results(nil); err == nil {
			t.Errorf("Shape(%d).Results: no error", s)
		}
	}
}

func TestStrictModeIsAskedForOnlyWhereTheSchemaFits(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{},"additionalProperties":false}`:                                                                                                                          true,
		`{"type":"object","additionalProperties":false}`:                                                                                                                                          true,
		`{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"],"additionalProperties":false}`:                                                                           true,
		`{"type":"object","properties":{"a":{"enum":["x"]}},"required":["a"],"additionalProperties":false}`:                                                                                       true,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/d"}},"required":["a"],"additionalProperties":false,"$defs":{"d":{"type":"string"}}}`:                                                 true,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],"additionalProperties":false}`:                                                        true,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                                                                                                     false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                                                                 false,
		`{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`:                                                                                                   false,
		`{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`:                                                                                                 false,
		`{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"],"additionalProperties":false}`:                                                                      false,
		`{"type":"object","properties":{"a":{"type":"string","format":"uri"}},"required":["a"],"additionalProperties":false}`:                                                                     false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`:                                                           false,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string","minLength":1}]}},"required":["a"],"additionalProperties":false}`:                                                          false,
		`{"type":"object","anyOf":[{"type":"object","additionalProperties":false}],"additionalProperties":false}`:                                                                                 false,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/d"}},"required":["a"],"additionalProperties":false,"$defs":{"d":{"type":["object","null"],"properties":{}}}}`:                        false,
		`{"type":"object","properties":{"a":` + strings.Repeat(`{"type":"array","items":`, 9) + `{"type":"string"}` + strings.Repeat("}", 9) + `},"required":["a"],"additionalProperties":false}`: false,
		`{"type":"object","properties":{` + manyProperties(101) + `},"required":[` + manyNames(101) + `],"additionalProperties":false}`:                                                           false,
		`{"type":"object","properties":{` + manyProperties(100) + `},"required":[` + manyNames(100) + `],"additionalProperties":false}`:                                                           true,
	} {
		var doc map[string]any
		if err := json.Unmarshal([]byte(schema), &doc); err != nil {
			t.Fatal(err)
		}
		if got := fitsStrict(doc); got != want {
			t.Errorf("fitsStrict(%.120s) = %v, want %v", schema, got, want)
		}
	}
}

func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = `"p` + strings.Repeat("x", i) + `"`
	}
	return strings.Join(names, ",")
}

func manyProperties(n int) string {
	return strings.ReplaceAll(manyNames(n), `",`, `":{"type":"string"},`) + `:{"type":"string"}`
}
