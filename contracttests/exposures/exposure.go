package exposures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/toolshape"
)

// An Exposure is one way to the tools of one caller.
type Exposure interface {
	Name() string
	// Tools are what the caller is shown, under our names, in the order shown.
	Tools(ctx context.Context) ([]Tool, error)
	// Call runs one call by our name of the tool and returns what came out at
	// the other end, as it is read there.
	Call(ctx context.Context, call connector.Call) (Answer, error)
}

// A Tool is what a model is shown of one.
type Tool struct {
	Name, Description string
	Input             any // the schema, decoded
}

// An Answer is what a caller can tell of a result.
type Answer struct {
	Status connector.Status `json:"status"`
	Error  struct {
		Code connector.Code `json:"code"`
	} `json:"error"`
	Effect struct {
		Disposition string                `json:"disposition"`
		Operation   connector.OperationID `json:"operation_id"`
	} `json:"effect"`
	Coverage   connector.Coverage `json:"coverage"`
	Data       json.RawMessage    `json:"data"`
	NextCursor *string            `json:"next_cursor"`
	Replayed   bool               `json:"replayed"`
	Pending    struct {
		Approval connector.ApprovalID `json:"approval_id"`
		Body     string               `json:"body"`
	} `json:"pending"`
	Receipt struct {
		ExternalID string          `json:"external_id"`
		Proof      connector.Proof `json:"proof"`
	} `json:"receipt"`
}

// read takes an answer from the JSON text of a result.
func read(text []byte) (Answer, error) {
	var a Answer
	err := json.Unmarshal(text, &a)
	if err == nil && a.Status == "" {
		err = errors.New("the answer has no status")
	}
	return a, err
}

// Here are the ways that need no server: in process, and the JSON of OpenAI (Chat
// Completions) and of Anthropic.
func Here(r *connector.Runtime, caller connector.Caller) []Exposure {
	return []Exposure{direct{r, caller}, vendor{direct{r, caller}, toolshape.OpenAI}, vendor{direct{r, caller}, toolshape.Anthropic}}
}

type direct struct {
	runtime *connector.Runtime
	caller  connector.Caller
}

func (direct) Name() string { return "direct" }

func (d direct) Tools(ctx context.Context) ([]Tool, error) {
	definitions, err := d.runtime.Tools(ctx, d.caller)
	if err != nil {
		return nil, err
	}
	var all []Tool
	for _, def := range definitions {
		t := Tool{Name: def.Name, Description: def.Description}
		if err := json.Unmarshal(def.InputSchema, &t.Input); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (d direct) Call(ctx context.Context, call connector.Call) (Answer, error) {
	text, err := json.Marshal(d.runtime.Execute(ctx, d.caller, call))
	if err != nil {
		return Answer{}, err
	}
	return read(text)
}

// vendor says each call in the JSON that a vendor's model would say it in, and
// reads the result from the message that the model would be sent.
type vendor struct {
	direct
	shape toolshape.Shape
}

func (v vendor) Name() string { return v.shape.String() }

// swapped turns our names into a vendor's and back.
var swapped = strings.NewReplacer(".", "-", "-", ".")

func (v vendor) Tools(ctx context.Context) ([]Tool, error) {
	definitions, err := v.runtime.Tools(ctx, v.caller)
	if err != nil {
		return nil, err
	}
	raw, err := v.shape.Tools(definitions)
	if err != nil {
		return nil, err
	}
	type shown struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  any    `json:"parameters"`   // OpenAI
		InputSchema any    `json:"input_schema"` // Anthropic
	}
	var list []struct {
		shown
		Function *shown `json:"function"` // OpenAI
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var all []Tool
	for _, s := range list {
		t := Tool{s.Name, s.Description, s.InputSchema}
		if s.Function != nil {
			t = Tool{s.Function.Name, s.Function.Description, s.Function.Parameters}
		}
		t.Name = swapped.Replace(t.Name)
		all = append(all, t)
	}
	return all, nil
}

func (v vendor) Call(ctx context.Context, call connector.Call) (Answer, error) {
	name := swapped.Replace(call.Tool)
	said := map[string]any{"role": "assistant", "content": []any{map[string]any{
		"type": "tool_use", "id": call.ID, "name": name, "input": call.Arguments}}}
	if v.shape == toolshape.OpenAI {
		said = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"id": call.ID, "type": "function", "function": map[string]any{"name": name, "arguments": string(call.Arguments)}}}}
	}
	raw, err := json.Marshal(said)
	if err != nil {
		return Answer{}, err
	}
	calls, err := v.shape.Calls(raw)
	if err != nil || len(calls) != 1 {
		return Answer{}, fmt.Errorf("%d calls were read: %w", len(calls), err)
	}
	raw, err = v.shape.Results([]connector.Result{v.runtime.Execute(ctx, v.caller, calls[0])})
	if err != nil {
		return Answer{}, err
	}
	var messages []struct {
		ToolCallID string `json:"tool_call_id"` // OpenAI
		ToolUseID  string `json:"tool_use_id"`  // Anthropic
		Content    string `json:"content"`
	}
	if err := json.Unmarshal(raw, &messages); err != nil || len(messages) != 1 {
		return Answer{}, fmt.Errorf("%d results were read: %w", len(messages), err)
	}
	if m := messages[0]; m.ToolCallID+m.ToolUseID != call.ID {
		return Answer{}, errors.New("the result is of another call")
	}
	return read([]byte(messages[0].Content))
}
