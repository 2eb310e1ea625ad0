package vendortypes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/toolshape"
)

// Guarantee: RUN8
func TestChatCompletionsTools(t *testing.T) {
	raw, err := toolshape.OpenAI.Tools(desk().Definitions())
	if err != nil {
		t.Fatal(err)
	}
	tools, again := through[[]openai.ChatCompletionToolUnionParam](t, raw)
	for i, tool := range tools {
		if tool.OfFunction == nil || tool.OfFunction.Function.Name == "" || tool.OfFunction.Function.Parameters["type"] != "object" {
			t.Errorf("tool %d is no function to the vendor: %+v", i, tool)
		}
	}
	same(t, raw, again)
}

// Guarantee: RUN8
func TestResponsesTools(t *testing.T) {
	raw, err := toolshape.OpenAIResponses.Tools(desk().Definitions())
	if err != nil {
		t.Fatal(err)
	}
	tools, again := through[[]responses.ToolUnionParam](t, raw)
	for i, tool := range tools {
		if tool.OfFunction == nil || tool.OfFunction.Name == "" || !tool.OfFunction.Strict.Valid() {
			t.Errorf("tool %d is no function to the vendor: %+v", i, tool)
		}
	}
	same(t, raw, again)
}

// Several calls in one answer, each of the ways to write arguments badly.
// Guarantee: RUN3, RUN8
func TestChatCompletionsCalls(t *testing.T) {
	var calls []string
	var want []connector.Call
	for i, w := range written {
		id := fmt.Sprintf("call_%d", i)
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"desk-deep-list","arguments":%s}}`, id, marshal(t, w.arguments)))
		want = append(want, connector.Call{ID: id, Tool: "desk.deep.list", Arguments: json.RawMessage(w.want)})
	}
	calls = append(calls, `{"id":"x","type":"custom","custom":{"name":"grep","input":"desk-write"}}`) // somebody else's
	var completion openai.ChatCompletion
	if err := json.Unmarshal([]byte(`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"tool_calls","logprobs":null,`+
		`"message":{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[`+strings.Join(calls, ",")+`]}}]}`), &completion); err != nil {
		t.Fatal(err)
	}
	message := completion.Choices[0].Message
	for name, raw := range map[string][]byte{"as it came": []byte(message.RawJSON()), "as it is sent back": marshal(t, message.ToParam())} {
		t.Run(name, func(t *testing.T) {
			got, err := toolshape.OpenAI.Calls(raw)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, want, got)
		})
	}
}

// A streamed answer, in pieces that cut through names and arguments.
// Guarantee: RUN3, RUN8
func TestChatCompletionsStream(t *testing.T) {
	var all openai.ChatCompletionAccumulator
	chunk := func(delta string) {
		var c openai.ChatCompletionChunk
		if err := json.Unmarshal([]byte(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"finish_reason":null,"delta":`+delta+`}]}`), &c); err != nil {
			t.Fatal(err)
		}
		if !all.AddChunk(c) {
			t.Fatalf("the vendor's accumulator refuses %s", delta)
		}
	}
	chunk(`{"role":"assistant","content":null}`)
	var want []connector.Call
	for i, w := range written {
		id := fmt.Sprintf("call_%d", i)
		chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":"desk-given","arguments":""}}]}`, i, id))
		for _, piece := range strings.SplitAfter(w.arguments, `"`) {
			chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, marshal(t, piece)))
		}
		want = append(want, connector.Call{ID: id, Tool: "desk.given", Arguments: json.RawMessage(w.want)})
	}
	got, err := toolshape.OpenAI.Calls(marshal(t, all.Choices[0].Message.ToParam()))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, want, got)
}

// Guarantee: RUN3, RUN8
func TestResponsesCalls(t *testing.T) {
	items := []string{`{"type":"reasoning","id":"rs_1","summary":[]}`}
	var want []connector.Call
	for i, w := range written {
		id := fmt.Sprintf("call_%d", i)
		items = append(items, fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":"completed","call_id":%q,"name":"desk-derived_2","arguments":%s}`, i, id, marshal(t, w.arguments)))
		want = append(want, connector.Call{ID: id, Tool: "desk.derived_2", Arguments: json.RawMessage(w.want)})
	}
	items = append(items, `{"id":"fc_x","type":"function_call","status":"incomplete","call_id":"cut","name":"desk-write","arguments":"{}"}`)
	want = append(want, connector.Call{ID: "cut", Tool: "desk.write", Arguments: json.RawMessage(`"{}"`)})
	var response responses.Response
	if err := json.Unmarshal([]byte(`{"id":"r","object":"response","created_at":1,"model":"m","output":[`+strings.Join(items, ",")+`]}`), &response); err != nil {
		t.Fatal(err)
	}
	var came []json.RawMessage
	var sent []responses.ResponseInputItemUnionParam
	for _, item := range response.Output {
		came = append(came, json.RawMessage(item.RawJSON()))
		if call, ok := item.AsAny().(responses.ResponseFunctionToolCall); ok {
			param := call.ToParam()
			sent = append(sent, responses.ResponseInputItemUnionParam{OfFunctionCall: &param})
		}
	}
	for name, raw := range map[string][]byte{"as it came": marshal(t, came), "as it is sent back": marshal(t, sent)} {
		t.Run(name, func(t *testing.T) {
			got, err := toolshape.OpenAIResponses.Calls(raw)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, want, got)
		})
	}
}

// Guarantee: RUN8
func TestOpenAIResults(t *testing.T) {
	raw, err := toolshape.OpenAI.Results(results())
	if err != nil {
		t.Fatal(err)
	}
	messages, again := through[[]openai.ChatCompletionMessageParamUnion](t, raw)
	for i, r := range results() {
		if m := messages[i].OfTool; m == nil || m.ToolCallID != r.CallID || m.Content.OfString.Value == "" {
			t.Errorf("result %d is no tool's answer to the vendor: %s", i, marshal(t, messages[i]))
		} else {
			same(t, marshal(t, r), []byte(m.Content.OfString.Value))
		}
	}
	same(t, raw, again)

	if raw, err = toolshape.OpenAIResponses.Results(results()); err != nil {
		t.Fatal(err)
	}
	items, again := through[[]responses.ResponseInputItemUnionParam](t, raw)
	for i, r := range results() {
		if m := items[i].OfFunctionCallOutput; m == nil || m.CallID != openai.String(r.CallID) || m.Output.OfString.Value == "" {
			t.Errorf("result %d is no function's output to the vendor: %s", i, marshal(t, items[i]))
		} else {
			same(t, marshal(t, r), []byte(m.Output.OfString.Value))
		}
	}
	same(t, raw, again)
}
