package toolshape

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A proposal is a call as a test wants a vendor to write it.
type proposal struct {
	id, tool, arguments string // arguments is what the model wrote
}

// say writes an answer with these calls, surrounded by what vendors put there.
func say(t interface{ Fatal(...any) }, s Shape, calls ...proposal) []byte {
	q := func(text string) string {
		b, err := encode(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	items := []string{}
	for _, c := range calls {
		switch s {
		case OpenAI:
			items = append(items, `{"index":0,"id":`+q(c.id)+`,"type":"function","function":{"name":`+q(c.tool)+`,"arguments":`+q(c.arguments)+`}}`)
		case OpenAIResponses:
			items = append(items, `{"id":"fc_1","type":"function_call","status":"completed","call_id":`+q(c.id)+`,"name":`+q(c.tool)+`,"arguments":`+q(c.arguments)+`}`)
		case Anthropic:
			items = append(items, `{"type":"tool_use","id":`+q(c.id)+`,"name":`+q(c.tool)+`,"input":`+c.arguments+`}`)
		}
	}
	list := strings.Join(items, ",")
	switch s {
	case OpenAI:
		return []byte(`{"role":"assistant","content":null,"refusal":null,"tool_calls":[` + list + `]}`)
	case OpenAIResponses:
		return []byte(`[{"type":"reasoning","id":"rs_1","summary":[]}` + strings.Repeat(",", min(1, len(items))) + list + `]`)
	default:
		return []byte(`{"id":"msg_1","role":"assistant","content":[{"type":"text","text":"let me look"}` + strings.Repeat(",", min(1, len(items))) + list + `],"stop_reason":"tool_use"}`)
	}
}

// Guarantee: RUN8
func TestAllShapesNormaliseToTheSameCalls(t *testing.T) {
	want := []connector.Call{
		{ID: "id_2", Tool: "tickets.search", Arguments: json.RawMessage(`{"query":"a-b.c","page_size":1}`)},
		{ID: "id_1", Tool: "tickets.create_v1", Arguments: json.RawMessage(`{ }`)},
	}
	for _, s := range shapes {
		got, err := s.Calls(say(t, s, proposal{"id_2", "tickets-search", `{"query":"a-b.c","page_size":1}`}, proposal{"id_1", "tickets-create_v1", `{ }`}))
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", s, diff)
		}
	}
}

// Guarantee: RUN3
func TestParallelCallsKeepOrderAndIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(shapes).Draw(t, "shape")
		var said []proposal
		var want []connector.Call
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			name := rapid.StringMatching(`[a-z][a-z0-9_]{0,5}(\.[a-z][a-z0-9_]{0,5}){1,3}`).Draw(t, "name")
			id := rapid.StringN(1, 12, -1).Draw(t, "id")
			arguments, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "arguments"))
			if err != nil {
				t.Fatal(err)
			}
			written, err := vendorName(name)
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, proposal{id, written, string(arguments)})
			want = append(want, connector.Call{ID: id, Tool: name, Arguments: arguments})
		}
		got, err := s.Calls(say(t, s, said...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v (-want +got):\n%s", s, diff)
		}
	})
}

func TestNamesAreOneToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z][a-z0-9_]{0,8}(\.[a-z][a-z0-9_]{0,8}){1,3}`).Draw(t, "name")
		written, err := vendorName(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Trim(written, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Fatalf("%q is not a vendor's name", written)
		}
		if back := ourName(written); back != name {
			t.Fatalf("%q came back as %q", name, back)
		}
		// Whatever else a model writes isn't that tool.
		other := rapid.StringMatching(`[a-z_.\-A-Z ]{1,8}|`+strings.ReplaceAll(name, ".", `[.\-]`)).Draw(t, "other")
		if other != written && ourName(other) == name {
			t.Fatalf("%q and %q are both %q", other, written, name)
		}
	})
}

// Guarantee: CON6
func TestNothingButNameArgumentsAndIDIsRead(t *testing.T) {
	trusted := `"intent":"i","Intent":"i","step":"s","Step":"s","step_id":"s","approval_id":"a","receipt":{},"tenant":"t",`
	for s, answer := range map[Shape]string{
		OpenAI:          `{` + trusted + `"role":"assistant","tool_calls":[{` + trusted + `"id":"c","type":"function","function":{` + trusted + `"name":"a-b","arguments":"{\"intent\":\"i\"}"}}]}`,
		OpenAIResponses: `[{` + trusted + `"type":"function_call","call_id":"c","name":"a-b","arguments":"{\"intent\":\"i\"}"}]`,
		Anthropic:       `{` + trusted + `"role":"assistant","content":[{` + trusted + `"type":"tool_use","id":"c","name":"a-b","input":{"intent":"i"}}]}`,
	} {
		got, err := s.Calls([]byte(answer))
		if err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		// What is in the arguments stays there, for the schema to refuse.
		want := []connector.Call{{ID: "c", Tool: "a.b", Arguments: json.RawMessage(`{"intent":"i"}`)}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", s, diff)
		}
	}
}

func TestWhatIsNotAFunctionCallIsLeftOut(t *testing.T) {
	for _, tc := range []struct {
		s      Shape
		answer string
		want   int
	}{
		{OpenAI, `{"role":"assistant","content":"hello"}`, 0},
		{OpenAI, `{"role":"assistant","content":"hello","tool_calls":null}`, 0},
		{OpenAI, `{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"a-b","input":"x"}}]}`, 0},
		{OpenAI, `{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"a-b","arguments":"{}"}}]}`, 1},
		{OpenAIResponses, `[]`, 0},
		{OpenAIResponses, `[{"type":"message","role":"assistant","content":[]},{"type":"web_search_call","id":"w"},{"type":"custom_tool_call","call_id":"c","name":"a-b","input":""}]`, 0},
		{Anthropic, `{"role":"assistant","content":"hello"}`, 0},
		{Anthropic, `{"role":"assistant","content":[{"type":"thinking","thinking":""},{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}`, 0},
	} {
		got, err := tc.s.Calls([]byte(tc.answer))
		if err != nil || len(got) != tc.want {
			t.Errorf("%v: Calls(%s) = %v, %v, want %d calls", tc.s, tc.answer, got, err, tc.want)
		}
	}
}

func TestBrokenMessagesAreErrorsWithoutCalls(t *testing.T) {
	good := proposal{"c", "a-b", "{}"}
	chat := func(call string) string { return `{"role":"assistant","tool_calls":[` + call + `]}` }
	answers := map[Shape][]string{
		OpenAI: {
			`[]`, `{"role":"user","tool_calls":[]}`, `{"tool_calls":[]}`, `{"role":"assistant","tool_calls":{}}`,
			chat(`1`), chat(`{}`), chat(`{"id":"c","type":"function"}`),
			chat(`{"type":"function","function":{"name":"a-b","arguments":"{}"}}`),
			chat(`{"id":"","type":"function","function":{"name":"a-b","arguments":"{}"}}`),
			chat(`{"id":7,"type":"function","function":{"name":"a-b","arguments":"{}"}}`),
			chat(`{"id":"c","type":"function","function":{"arguments":"{}"}}`),
			chat(`{"id":"c","id":"d","type":"function","function":{"name":"a-b","arguments":"{}"}}`),
			chat(`{"id":"c","type":"function","function":{"name":"a-b","\u006eame":"a-c","arguments":"{}"}}`),
			`{"role":"assistant","tool_calls":[],"tool_calls":[]}`,
		},
		OpenAIResponses: {
			`{}`, `[1]`, `[{"type":"function_call","id":"fc_1","name":"a-b","arguments":"{}"}]`,
			`[{"type":"function_call","call_id":"c","call_id":"d","name":"a-b","arguments":"{}"}]`,
		},
		Anthropic: {
			`[]`, `{"content":[]}`, `{"role":"user","content":[{"type":"tool_use","id":"c","name":"a-b","input":{}}]}`,
			`{"role":"assistant","content":{}}`, `{"role":"assistant","content":[{"type":"tool_use","name":"a-b","input":{}}]}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":null,"input":{}}]}`,
		},
	}
	for _, s := range shapes {
		whole := string(say(t, s, good))
		broken := append(answers[s], "", "null", "x", whole+"{}", whole[:len(whole)-1], whole[1:])
		for _, answer := range broken {
			got, err := s.Calls([]byte(answer))
			if err == nil || got != nil {
				t.Errorf("%v: Calls(%s) = %v, %v, want an error", s, answer, got, err)
			}
		}
	}
}

// One odd call must cost neither itself nor its neighbours.
func TestArgumentsThatAreNoObjectBecomeACallThatNoToolAccepts(t *testing.T) {
	odd := map[Shape][]string{
		OpenAI: {
			`""`, `"{"`, `"{\"a\":1"`, `"{} {}"`, `"not json"`, `"[]"`, `"7"`, `"null"`, `"\"{}\""`, `"{'a':1}"`, `"\ud800"`, `"{\"a\":\"\ud800\"}"`, `null`, `7`, `[]`,
			`"\u0000"`, `"` + strings.Repeat("[", 20_000) + `"`,
		},
		Anthropic: {`null`, `""`, `"{}"`, `[]`, `7`, `true`, `"\ud800"`},
	}
	odd[OpenAIResponses] = odd[OpenAI]
	for _, s := range shapes {
		for _, arguments := range append(odd[s], "absent") {
			item := map[Shape]string{
				OpenAI:          `{"id":"c2","type":"function","function":{"name":"a-b","arguments":@}}`,
				OpenAIResponses: `{"type":"function_call","call_id":"c2","name":"a-b","arguments":@}`,
				Anthropic:       `{"type":"tool_use","id":"c2","name":"a-b","input":@}`,
			}[s]
			if arguments == "absent" {
				item = strings.NewReplacer(`,"arguments":@`, "", `,"input":@`, "").Replace(item)
			}
			first := string(say(t, s, proposal{"c1", "a-b", "{}"}))
			end := strings.LastIndex(first, "]")
			got, err := s.Calls([]byte(first[:end] + "," + strings.Replace(item, "@", arguments, 1) + first[end:]))
			if err != nil || len(got) != 2 {
				t.Errorf("%v, %.40s: %d calls, %v, want 2", s, arguments, len(got), err)
				continue
			}
			if got[1].ID != "c2" || got[1].Tool != "a.b" {
				t.Errorf("%v, %.40s: got %+v", s, arguments, got[1])
			}
			var object map[string]any
			if raw := got[1].Arguments; !json.Valid(raw) || raw[0] == '{' || json.Unmarshal(raw, &object) == nil && object != nil {
				t.Errorf("%v, %.40s: arguments are %.80s", s, arguments, raw)
			}
		}
	}
}

// The last thing a model wrote before its room ran out may fit the schema by
// accident, with half of a list or of a sentence in it.
func TestCallsThatWereCutOffAreNotRun(t *testing.T) {
	for _, tc := range []struct {
		s      Shape
		answer string
		want   []string
	}{
		{OpenAIResponses, `[{"type":"function_call","call_id":"c","name":"a-b","arguments":"{}","status":"incomplete"}]`, []string{`"{}"`}},
		{OpenAIResponses, `[{"type":"function_call","call_id":"c","name":"a-b","arguments":{},"status":"in_progress"}]`, []string{`"{}"`}},
		{OpenAIResponses, `[{"type":"function_call","call_id":"c","name":"a-b","status":"incomplete"}]`, []string{`null`}},
		{Anthropic, `{"role":"assistant","stop_reason":"max_tokens","content":[{"type":"tool_use","id":"c","name":"a-b","input":{}},{"type":"tool_use","id":"d","name":"a-b","input":{"x":"y"}}]}`, []string{`{}`, `"{\"x\":\"y\"}"`}},
		{Anthropic, `{"role":"assistant","stop_reason":"max_tokens","content":[{"type":"tool_use","id":"c","name":"a-b","input":{}},{"type":"text","text":"and no"}]}`, []string{`{}`}},
	} {
		got, err := tc.s.Calls([]byte(tc.answer))
		if err != nil {
			t.Errorf("Calls(%s): %v", tc.answer, err)
			continue
		}
		var arguments []string
		for _, c := range got {
			arguments = append(arguments, string(c.Arguments))
		}
		if diff := cmp.Diff(tc.want, arguments); diff != "" {
			t.Errorf("Calls(%s): arguments (-want +got):\n%s", tc.answer, diff)
		}
	}
}

func FuzzCalls(f *testing.F) {
	for _, s := range shapes {
		f.Add(int(s), say(f, s, proposal{"a", "x-y", `{"a":[1]}`}, proposal{"b", "x.y", `{}`}))
	}
	f.Add(1, []byte(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"","arguments":"{\"a\":\"\\ud800\"}"}}]}`))
	f.Add(3, []byte("{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"\xff\",\"name\":\"a\",\"input\":{\"a\":1,\"a\":2}}]}"))
	f.Fuzz(func(t *testing.T, shape int, answer []byte) {
		s := Shape(shape)
		calls, err := s.Calls(answer)
		if err != nil && calls != nil {
			t.Fatal("calls beside an error")
		}
		var results []connector.Result
		for _, c := range calls {
			if c.ID == "" || c.Intent != "" || c.Step != "" || !json.Valid(c.Arguments) {
				t.Fatalf("a call that can't be run or answered: %+v", c)
			}
			results = append(results, connector.Result{CallID: c.ID, Tool: c.Tool, Status: connector.StatusError})
		}
		if err == nil {
			if _, err := s.Results(results); err != nil {
				t.Fatalf("an answer can't be written: %v", err)
			}
		}
	})
}
