package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A sketch is a one-sided, quick view of a schema: what it accepts the schema
// accepts; what it does not accept, the validator must judge. Every result is
// checked before it leaves, and nearly all of them fit, so the common case has
// to be cheap: it is one walk over the bytes, without building a value.
type sketch struct {
	types      map[jsontext.Kind]bool // nil: any
	integer    bool                   // numbers must be integers
	values     map[string]bool        // enum, as JSON text; nil: any
	properties map[string]property
	required   int // how many of them
	items      *sketch
	minItems   int
	maxItems   int // -1: no limit
	minLength  int
	maxLength  int // in characters; -1: no limit
}

type property struct {
	*sketch
	required bool
}

var kindsOf = map[string][]jsontext.Kind{
	"string": {'"'}, "number": {'0'}, "integer": {'0'}, "object": {'{'}, "array": {'['}, "boolean": {'t', 'f'}, "null": {'n'},
}

// sketchOf returns nil when the schema uses a keyword that a sketch can't stand for.
func sketchOf(node any, root map[string]any, depth int) *sketch {
	n, ok := node.(map[string]any)
	if !ok || depth > 16 {
		return nil
	}
	if ref, ok := n["$ref"].(string); ok {
		name, local := strings.CutPrefix(ref, "#/$defs/")
		defs, _ := root["$defs"].(map[string]any)
		if !local || len(n) > 1 {
			return nil
		}
		return sketchOf(defs[name], root, depth+1)
	}
	s := &sketch{maxItems: -1, maxLength: -1}
	for keyword, v := range n {
		if !s.add(keyword, v, root, depth) {
			return nil
		}
	}
	names, _ := n["required"].([]any)
	for _, name := range names {
		p, declared := s.properties[name.(string)]
		if !declared {
			return nil
		}
		p.required = true
		s.properties[name.(string)] = p
		s.required++
	}
	return s
}

func (s *sketch) add(keyword string, v any, root map[string]any, depth int) bool {
	whole := func(into *int) bool {
		f, ok := v.(float64)
		*into = int(f)
		return ok && f == float64(*into)
	}
	switch keyword {
	case "title", "description", "format", "$defs", "$schema", "examples", "default":
		return true // annotations
	case "required":
		return true // when the properties are known
	case "additionalProperties":
		return v == false
	case "type":
		names, ok := v.([]any)
		if !ok {
			names = []any{v}
		}
		s.types = map[jsontext.Kind]bool{}
		for _, name := range names {
			text, _ := name.(string)
			for _, kind := range kindsOf[text] {
				s.types[kind] = true
			}
			s.integer = s.integer || text == "integer"
		}
		return !(s.integer && slices.Contains(names, any("number")))
	case "enum":
		s.values = map[string]bool{}
		for _, value := range v.([]any) {
			raw, err := json.Marshal(value)
			if err != nil {
				return false
			}
			s.values[string(raw)] = true
		}
		return true
	case "properties":
		s.properties = map[string]property{}
		for name, child := range v.(map[string]any) {
			p := sketchOf(child, root, depth+1)
			if p == nil {
				return false
			}
			s.properties[name] = property{sketch: p}
		}
		return true
	case "items":
		s.items = sketchOf(v, root, depth+1)
		return s.items != nil
	case "minItems":
		return whole(&s.minItems)
	case "maxItems":
		return whole(&s.maxItems)
	case "minLength":
		return whole(&s.minLength)
	case "maxLength":
		return whole(&s.maxLength)
	}
	return false
}

// accepts reports whether data surely fits. False means: ask the validator.
func (s *sketch) accepts(data []byte) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	return s.walk(d) && d.InputOffset() == int64(len(data))
}

func (s *sketch) walk(d *jsontext.Decoder) bool {
	kind := d.PeekKind()
	if s.types != nil && !s.types[kind] {
		return false
	}
	if s.values != nil && (kind == '{' || kind == '[') {
		return false
	}
	switch kind {
	case '{':
		return s.walkObject(d)
	case '[':
		return s.walkArray(d)
	}
	raw, err := d.ReadValue()
	if err != nil || s.values != nil && !s.values[string(raw)] {
		return false
	}
	switch kind {
	case '"':
		// A character takes one byte or more, so bytes bound characters.
		n := len(raw) - len(`""`)
		return (s.minLength == 0 || s.minLength == 1 && n > 0) && (s.maxLength < 0 || n <= s.maxLength)
	case '0':
		return !s.integer || !bytes.ContainsAny(raw, ".eE")
	}
	return true
}

func (s *sketch) walkObject(d *jsontext.Decoder) bool {
	if _, err := d.ReadToken(); err != nil || s.properties == nil {
		return false
	}
	required := 0
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return false
		}
		child, known := s.properties[string(quoted[1:len(quoted)-1])]
		if !known {
			return false
		}
		if child.required {
			required++ // the decoder refuses names that come twice
		}
		if !child.walk(d) {
			return false
		}
	}
	_, err := d.ReadToken()
	return err == nil && required == s.required
}

func (s *sketch) walkArray(d *jsontext.Decoder) bool {
	if _, err := d.ReadToken(); err != nil || s.items == nil {
		return false
	}
	n := 0
	for ; d.PeekKind() != ']'; n++ {
		if !s.items.walk(d) {
			return false
		}
	}
	_, err := d.ReadToken()
	return err == nil && n >= s.minItems && (s.maxItems < 0 || n <= s.maxItems)
}

// Conforms validates what our own encoder wrote.
func (s *Schema) Conforms(raw []byte) error {
	if s.sketch != nil && s.sketch.accepts(raw) {
		return nil
	}
	if faults := s.validate(raw); len(faults) > 0 {
		return fmt.Errorf("output breaks its schema at %v", faults)
	}
	return nil
}
