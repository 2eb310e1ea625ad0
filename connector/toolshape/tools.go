package toolshape

import (
	"encoding/json"
	"errors"

	"github.com/drawbridge-dev/drawbridge/connector"
)

type chatTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type responsesTool struct {
	Type string `json:"type"`
	function
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	// Always written: Chat Completions takes an absent one for false, Responses
	// for true and then rewrites the schema.
	Strict bool `json:"strict"`
}

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// Tools returns the JSON array for the request's "tools", in the order given.
// The schemas are the ones that the runtime enforces, unchanged. OpenAI's strict
// mode is asked for where a schema fits what it supports. No definitions give an
// empty array; vendors want the key left out then.
//
// A name that a vendor can't carry, a name that is there twice and an input
// schema that isn't one of an object are errors.
func (s Shape) Tools(definitions []connector.Definition) ([]byte, error) {
	if !s.known() {
		return nil, errNoShape
	}
	tools := make([]any, 0, len(definitions))
	seen := map[string]bool{}
	for _, d := range definitions {
		tool, err := s.tool(d)
		if err != nil {
			return nil, s.fail("tool %q: %w", d.Name, err)
		}
		if seen[d.Name] {
			return nil, s.fail("tool %q is there twice", d.Name)
		}
		seen[d.Name] = true
		tools = append(tools, tool)
	}
	return encode(tools)
}

func (s Shape) tool(d connector.Definition) (any, error) {
	name, err := vendorName(d.Name)
	if err != nil {
		return nil, err
	}
	var schema map[string]any
	if err := json.Unmarshal(d.InputSchema, &schema); err != nil || schema["type"] != "object" {
		return nil, errors.New("the input schema is not that of an object")
	}
	f := function{name, describe(d), d.InputSchema, fitsStrict(schema)}
	switch s {
	case OpenAI:
		return chatTool{"function", f}, nil
	case OpenAIResponses:
		return responsesTool{"function", f}, nil
	default:
		return messagesTool{f.Name, f.Description, f.Parameters}, nil
	}
}

// describe adds what these shapes have no field for and a model should weigh.
func describe(d connector.Definition) string {
	text := d.Description
	if d.Approval {
		text += "\n\nA person must approve the exact payload before it is sent."
	}
	if d.Deprecated != "" {
		text += "\n\nDeprecated: " + d.Deprecated
	}
	return text
}
