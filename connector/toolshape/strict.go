package toolshape

import "slices"

// What OpenAI's strict mode takes, by its guide on structured outputs: a subset
// of JSON Schema in which every object is closed and requires all its
// properties. Where the guide and the service have differed, the narrower is
// here: asking for strict mode in vain fails the request, not asking costs little,
// because the runtime validates anyway.
var (
	strictKeywords = []string{
		"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
		"title", "description", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"multipleOf", "minItems", "maxItems",
	}
	strictFormats = []any{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

const (
	strictDepth      = 5
	strictProperties = 100
)

// fitsStrict says whether a schema is inside the subset. The root of a tool is
// an object, never a choice.
func fitsStrict(schema map[string]any) bool {
	left := strictProperties
	_, choice := schema["anyOf"]
	return !choice && strict(schema, strictDepth, &left)
}

func strict(node any, depth int, left *int) bool {
	schema, ok := node.(map[string]any)
	if !ok || depth == 0 {
		return false
	}
	typed := false
	for keyword, value := range schema {
		if !slices.Contains(strictKeywords, keyword) {
			return false
		}
		switch keyword {
		case "type", "anyOf", "$ref", "enum", "const":
			typed = true
		case "format":
			if !slices.Contains(strictFormats, value) {
				return false
			}
		case "items":
			if !strict(value, depth-1, left) {
				return false
			}
		case "$defs":
			if !strictAll(value, depth, left) {
				return false
			}
		case "properties":
			if !strictAll(value, depth-1, left) {
				return false
			}
		}
	}
	if choices, has := schema["anyOf"]; has {
		list, _ := choices.([]any)
		for _, choice := range list {
			if !strict(choice, depth-1, left) {
				return false
			}
		}
	}
	return typed && strictObject(schema)
}

func strictAll(node any, depth int, left *int) bool {
	children, ok := node.(map[string]any)
	if *left -= len(children); !ok || *left < 0 {
		return false
	}
	for _, child := range children {
		if !strict(child, depth, left) {
			return false
		}
	}
	return true
}

// strictObject: nothing beside the declared properties, and all of them due.
func strictObject(schema map[string]any) bool {
	types, _ := schema["type"].([]any)
	properties, has := schema["properties"].(map[string]any)
	if !has && schema["type"] != "object" && !slices.Contains(types, any("object")) {
		return true
	}
	required, _ := schema["required"].([]any)
	for name := range properties {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return schema["additionalProperties"] == false
}
