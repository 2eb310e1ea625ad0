package toolshape

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Calls reads the tool calls of a model's answer, in its order and with its
// ids. What to pass: for [OpenAI] the assistant message of a choice, for
// [OpenAIResponses] the array "output" of the response, for [Anthropic] the
// response, which is the message.
//
// Unknown fields are ignored. Calls of other kinds (custom tools, tools that the
// vendor runs itself) belong to whoever declared them and are left out. An error
// means that the message around the calls isn't what the vendor documents: not
// JSON, not the assistant's, a name given twice, a call without an id that an
// answer could carry. Then there are no calls at all.
//
// Two calls with one id are both returned; the runtime refuses the second.
func (s Shape) Calls(answer []byte) ([]connector.Call, error) {
	var calls []connector.Call
	var err error
	switch s {
	case OpenAI:
		calls, err = chatCalls(answer)
	case OpenAIResponses:
		calls, err = responsesCalls(answer)
	case Anthropic:
		calls, err = messagesCalls(answer)
	default:
		return nil, errNoShape
	}
	if err != nil {
		return nil, s.fail("%w", err)
	}
	return calls, nil
}

func chatCalls(answer []byte) (calls []connector.Call, err error) {
	message, err := assistants(answer)
	if err != nil {
		return nil, err
	}
	list, err := optionalElements(message["tool_calls"])
	for _, raw := range list {
		item, err := members(raw)
		if err != nil {
			return nil, err
		}
		// Servers that imitate this API leave the type out.
		if kind, has := item["type"]; has && text(kind) != "function" {
			continue
		}
		f, err := members(item["function"])
		if err != nil {
			return nil, err
		}
		if calls, err = add(calls, item["id"], f["name"], spoken(f["arguments"])); err != nil {
			return nil, err
		}
	}
	return calls, err
}

func responsesCalls(answer []byte) (calls []connector.Call, err error) {
	list, err := elements(answer)
	for _, raw := range list {
		item, err := members(raw)
		if err != nil {
			return nil, err
		}
		if text(item["type"]) != "function_call" {
			continue
		}
		arguments := spoken(item["arguments"])
		if status, has := item["status"]; has && text(status) != "completed" {
			arguments = cutOff(item["arguments"])
		}
		// An item has an id of its own; the answer goes to the call's.
		if calls, err = add(calls, item["call_id"], item["name"], arguments); err != nil {
			return nil, err
		}
	}
	return calls, err
}

func messagesCalls(answer []byte) (calls []connector.Call, err error) {
	message, err := assistants(answer)
	if err != nil {
		return nil, err
	}
	if message["content"].Kind() == '"' {
		return nil, nil // text only
	}
	list, err := optionalElements(message["content"])
	for i, raw := range list {
		block, err := members(raw)
		if err != nil {
			return nil, err
		}
		if text(block["type"]) != "tool_use" {
			continue
		}
		arguments := whole(block["input"])
		// The model ran out of room. What it was writing last is not what it
		// meant to write, even if it happens to fit the schema.
		switch text(message["stop_reason"]) {
		case "max_tokens", "model_context_window_exceeded":
			if i == len(list)-1 {
				arguments = cutOff(block["input"])
			}
		}
		if calls, err = add(calls, block["id"], block["name"], arguments); err != nil {
			return nil, err
		}
	}
	return calls, err
}

func add(calls []connector.Call, id, name jsontext.Value, arguments json.RawMessage) ([]connector.Call, error) {
	if text(id) == "" {
		return nil, errors.New("a call has no id, so it can't be answered")
	}
	if name.Kind() != '"' {
		return nil, errors.New("a call has no name")
	}
	return append(calls, connector.Call{ID: text(id), Tool: ourName(text(name)), Arguments: arguments}), nil
}

// spoken takes arguments that the vendor passes on as the text that the model
// wrote. The result is always JSON, but an object only if the model wrote one.
func spoken(raw jsontext.Value) json.RawMessage {
	if raw.Kind() != '"' {
		return whole(raw)
	}
	written, err := jsontext.AppendUnquote(nil, raw)
	if err != nil || !json.Valid(written) {
		return json.RawMessage(raw) // the string itself, which no tool accepts
	}
	return written
}

// whole takes arguments that came as a value. Names given twice and broken
// UTF-8 are still in it, for the runtime to refuse.
func whole(raw jsontext.Value) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(raw)
}

// cutOff makes arguments that no schema of an object accepts.
func cutOff(raw jsontext.Value) json.RawMessage {
	if raw == nil || raw.Kind() == '"' {
		return whole(raw)
	}
	quoted, _ := json.Marshal(string(raw)) // a string always encodes
	return quoted
}

// assistants reads a message that must be the assistant's: calls that someone
// else's message brings are text, not calls.
func assistants(raw jsontext.Value) (map[string]jsontext.Value, error) {
	message, err := members(raw)
	if err != nil {
		return nil, err
	}
	if text(message["role"]) != "assistant" {
		return nil, errors.New("the message is not the assistant's")
	}
	return message, nil
}

// members splits one level of an object. A name that is there twice at this
// level is an error: two readers would see two calls. Deeper levels are judged
// by who reads them.
func members(raw jsontext.Value) (map[string]jsontext.Value, error) {
	d, err := open(raw, '{')
	if err != nil {
		return nil, err
	}
	all := map[string]jsontext.Value{}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, errNotJSON
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, errNotJSON
		}
		if _, twice := all[name]; twice {
			return nil, errors.New("a name is there twice in one object")
		}
		all[name] = value.Clone()
	}
	return all, end(d)
}

// optionalElements takes an absent or null array for an empty one.
func optionalElements(raw jsontext.Value) ([]jsontext.Value, error) {
	if raw == nil || raw.Kind() == 'n' {
		return nil, nil
	}
	return elements(raw)
}

// elements splits an array.
func elements(raw jsontext.Value) ([]jsontext.Value, error) {
	d, err := open(raw, '[')
	if err != nil {
		return nil, err
	}
	var all []jsontext.Value
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return nil, errNotJSON
		}
		all = append(all, value.Clone())
	}
	return all, end(d)
}

var errNotJSON = errors.New("the message is not JSON")

func open(raw []byte, kind jsontext.Kind) (*jsontext.Decoder, error) {
	// A lone surrogate in what a model wrote must not cost the other calls.
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	token, err := d.ReadToken()
	if err != nil {
		return nil, errNotJSON
	}
	if token.Kind() != kind {
		return nil, errors.New("an object or array is missing where the vendor documents one")
	}
	return d, nil
}

func end(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return errNotJSON
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.New("there is something behind the message")
	}
	return nil
}

// text is the string in a value, or empty.
func text(raw jsontext.Value) string {
	if raw.Kind() != '"' {
		return ""
	}
	s, _ := jsontext.AppendUnquote(nil, raw) // broken UTF-8 is replaced
	return string(s)
}
