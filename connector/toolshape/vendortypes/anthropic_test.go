package vendortypes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/toolshape"
)

// Guarantee: RUN8
func TestMessagesTools(t *testing.T) {
	raw, err := toolshape.Anthropic.Tools(desk().Definitions())
	if err != nil {
		t.Fatal(err)
	}
	tools, again := through[[]anthropic.ToolUnionParam](t, raw)
	for i, tool := range tools {
		if tool.OfTool == nil || tool.OfTool.Name == "" {
			t.Errorf("tool %d is none to the vendor: %+v", i, tool)
		}
	}
	same(t, raw, again)
}

// What a model writes here is always JSON; what it wrote last may be cut off.
// Guarantee: RUN3, RUN8
func TestMessagesCalls(t *testing.T) {
	blocks := []string{`{"type":"text","text":"let me look","citations":null}`, `{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}`}
	var want []connector.Call
	for i, arguments := range []string{`{"id":"a","n":9007199254740993}`, `{ }`, `[1]`, `{"id":"a","id":"b"}`, `null`} {
		id := fmt.Sprintf("toolu_%d", i)
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"desk-deep-list","input":%s}`, id, arguments))
		want = append(want, connector.Call{ID: id, Tool: "desk.deep.list", Arguments: json.RawMessage(arguments)})
	}
	message := readMessage(t, "tool_use", blocks)
	got, err := toolshape.Anthropic.Calls([]byte(message.RawJSON()))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, want, got)

	// The parameter form loses stop_reason, which a host has no reason to keep.
	if got, err = toolshape.Anthropic.Calls(marshal(t, message.ToParam())); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Tool != want[i].Tool {
			t.Errorf("call %d came back as %+v", i, got[i])
		}
	}

	message = readMessage(t, "max_tokens", blocks[:3])
	if got, err = toolshape.Anthropic.Calls([]byte(message.RawJSON())); err != nil {
		t.Fatal(err)
	}
	equal(t, []connector.Call{{ID: "toolu_0", Tool: "desk.deep.list", Arguments: marshal(t, `{"id":"a","n":9007199254740993}`)}}, got)
}

func readMessage(t *testing.T, stop string, blocks []string) (m anthropic.Message) {
	t.Helper()
	if err := json.Unmarshal([]byte(`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[`+strings.Join(blocks, ",")+
		`],"stop_reason":"`+stop+`","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Guarantee: RUN3, RUN8
func TestMessagesStream(t *testing.T) {
	var message anthropic.Message
	event := func(format string, args ...any) {
		t.Helper()
		var e anthropic.MessageStreamEventUnion
		if err := json.Unmarshal(fmt.Appendf(nil, format, args...), &e); err != nil {
			t.Fatal(err)
		}
		if err := message.Accumulate(e); err != nil {
			t.Fatal(err)
		}
	}
	event(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`)
	var want []connector.Call
	for i, arguments := range []string{`{"id":"a"}`, `{"query":"a \"b\"","page_size":1,"cursor":null}`} {
		event(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"toolu_%d","name":"desk-given","input":{}}}`, i, i)
		for _, piece := range strings.SplitAfter(arguments, `"`) {
			event(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, marshal(t, piece))
		}
		event(`{"type":"content_block_stop","index":%d}`, i)
		want = append(want, connector.Call{ID: fmt.Sprintf("toolu_%d", i), Tool: "desk.given", Arguments: json.RawMessage(arguments)})
	}
	event(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}`)
	event(`{"type":"message_stop"}`)
	got, err := toolshape.Anthropic.Calls(marshal(t, message.ToParam()))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, want, got)
}

// Guarantee: RUN8
func TestAnthropicResults(t *testing.T) {
	raw, err := toolshape.Anthropic.Results(results())
	if err != nil {
		t.Fatal(err)
	}
	// The vendor's type writes a text as a list of one text block, which its API
	// takes for the same. That is the only difference.
	blocks, _ := through[[]anthropic.ContentBlockParamUnion](t, raw)
	for i, r := range results() {
		b := blocks[i].OfToolResult
		if b == nil || b.ToolUseID != r.CallID || len(b.Content) != 1 || b.Content[0].OfText == nil {
			t.Fatalf("result %d is no tool's result to the vendor: %s", i, marshal(t, blocks[i]))
		}
		same(t, marshal(t, r), []byte(b.Content[0].OfText.Text))
		if b.IsError.Value != (r.Status == connector.StatusError || r.Status == connector.StatusUnknown) {
			t.Errorf("result %d: is_error %v", i, b.IsError)
		}
	}
}
