package connector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	infer "github.com/google/jsonschema-go/jsonschema"
	validate "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// A schema is a closed JSON Schema 2020-12 object in both of its forms.
type schema struct {
	raw      json.RawMessage
	compiled *validate.Schema
	sketch   *sketch // may be nil
}

func newOperation[In, Out any](spec Spec, k opKind) Operation {
	o := Operation{spec: spec, kind: k}
	var err error
	if o.input, err = schemaFor[In](spec.Input, k == kindList); err != nil {
		o.faults = append(o.faults, fmt.Errorf("%s: input schema: %w", spec.Name, err))
	}
	if o.output, err = schemaFor[Out](spec.Output, false); err != nil {
		o.faults = append(o.faults, fmt.Errorf("%s: output schema: %w", spec.Name, err))
	}
	return o
}

// schemaFor takes the author's schema, or derives one from the type. A paged
// input gets page_size and cursor, which are the framework's.
func schemaFor[T any](given []byte, paged bool) (*schema, error) {
	raw := given
	if raw == nil {
		derived, err := infer.For[T](nil)
		if err != nil {
			return nil, err
		}
		if raw, err = json.Marshal(derived); err != nil {
			return nil, err
		}
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if given != nil {
		if err := sameNames(doc, reflect.TypeFor[T]()); err != nil {
			return nil, err
		}
	}
	if paged {
		addPaging(doc)
	}
	if err := closed(doc); err != nil {
		return nil, err
	}
	normal, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	parsed, err := validate.UnmarshalJSON(bytes.NewReader(normal))
	if err != nil {
		return nil, err
	}
	c := validate.NewCompiler()
	c.DefaultDraft(validate.Draft2020)
	// References may stay inside the document; nothing is loaded from outside.
	c.UseLoader(validate.SchemeURLLoader{})
	if err := c.AddResource("urn:schema", parsed); err != nil {
		return nil, err
	}
	compiled, err := c.Compile("urn:schema")
	if err != nil {
		return nil, err
	}
	return &schema{normal, compiled, sketchOf(doc, doc, 0)}, nil
}

const maxPageSize = 50

func addPaging(doc map[string]any) {
	properties, _ := doc["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		doc["properties"] = properties
	}
	properties["page_size"] = map[string]any{"type": "integer", "minimum": 1, "maximum": maxPageSize,
		"description": "How many items to return at most."}
	properties["cursor"] = map[string]any{"type": []any{"string", "null"}, "minLength": 1, "maxLength": 4096,
		"description": "null for the first page, then next_cursor of the page before."}
	required, _ := doc["required"].([]any)
	doc["required"] = append(required, "page_size", "cursor")
}

// closed refuses a schema that would take an object with properties it doesn't
// declare: a model could then smuggle arguments past review, and a provider
// fields. So every place must say what it takes, and objects must be closed.
func closed(doc map[string]any) error {
	var faults []error
	walkSchema(doc, "", func(at string, node any) {
		n, ok := node.(map[string]any)
		if !ok {
			faults = append(faults, fmt.Errorf("%s takes anything: say what it takes", pointerOr(at)))
			return
		}
		if _, pattern := n["patternProperties"]; pattern {
			faults = append(faults, fmt.Errorf("%s has patternProperties: name each property", pointerOr(at)))
		}
		_, declares := n["properties"]
		if (declares || typeIs(n["type"], "object")) && n["additionalProperties"] != false {
			faults = append(faults, fmt.Errorf("%s is an open object: set additionalProperties to false", pointerOr(at)))
		}
		for _, keyword := range []string{"type", "enum", "const", "$ref", "anyOf", "oneOf"} {
			if _, says := n[keyword]; says {
				return
			}
		}
		faults = append(faults, fmt.Errorf("%s takes anything: say what it takes", pointerOr(at)))
	})
	return errors.Join(faults...)
}

func typeIs(t any, want string) bool {
	if list, ok := t.([]any); ok {
		return slices.Contains(list, any(want))
	}
	return t == want
}

func pointerOr(at string) string {
	if at == "" {
		return "the schema"
	}
	return at
}

// walkSchema visits every place where a schema stands, in a stable order. Names
// of properties and values of enum, const, default and examples are no schemas,
// whatever they look like.
func walkSchema(node any, at string, visit func(at string, node any)) {
	visit(at, node)
	n, _ := node.(map[string]any)
	for _, keyword := range slices.Sorted(maps.Keys(n)) {
		child, here := n[keyword], at+"/"+keyword
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			named, _ := child.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(named)) {
				walkSchema(named[name], here+"/"+escape(name), visit)
			}
		case "prefixItems", "anyOf", "oneOf", "allOf":
			list, _ := child.([]any)
			for i, branch := range list {
				walkSchema(branch, here+"/"+strconv.Itoa(i), visit)
			}
		case "items", "contains", "if", "then", "else", "propertyNames", "unevaluatedItems":
			walkSchema(child, here, visit)
		}
	}
}

// properties visits the name of every property that a schema declares.
func properties(doc any, at string, visit func(at, name string)) {
	walkSchema(doc, at, func(at string, node any) {
		n, _ := node.(map[string]any)
		declared, _ := n["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(declared)) {
			visit(at, name)
		}
	})
}

// check validates raw and returns every fault at once, sorted by pointer and
// keyword so that the answer is stable. Nothing is coerced.
func (s *schema) check(raw []byte) []Fault {
	// Duplicate names would let a reviewer see one value and a decoder another.
	if !jsontext.Value(raw).IsValid() {
		return []Fault{{Pointer: "", Keyword: "json"}}
	}
	doc, err := validate.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return []Fault{{Pointer: "", Keyword: "json"}}
	}
	var faults []Fault
	numbers(doc, "", &faults)
	var invalid *validate.ValidationError
	if err := s.compiled.Validate(doc); errors.As(err, &invalid) {
		leaves(invalid, &faults)
	}
	slices.SortFunc(faults, func(a, b Fault) int {
		if c := strings.Compare(a.Pointer, b.Pointer); c != 0 {
			return c
		}
		return strings.Compare(a.Keyword, b.Keyword)
	})
	return slices.Compact(faults)
}

// validate is check for what our own encoder wrote: no duplicate names, no
// number that a float64 can't hold unless an author put it there.
func (s *schema) validate(raw []byte) []Fault {
	doc, err := validate.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return []Fault{{Pointer: "", Keyword: "json"}}
	}
	var faults []Fault
	var invalid *validate.ValidationError
	if err := s.compiled.Validate(doc); errors.As(err, &invalid) {
		leaves(invalid, &faults)
	}
	return faults
}

// numbers refuses what a float64 can't hold exactly (RFC 7493 section 2.2):
// two such numbers could share a canonical form, and so a digest.
func numbers(node any, at string, faults *[]Fault) {
	switch n := node.(type) {
	case map[string]any:
		for key, child := range n {
			numbers(child, at+"/"+escape(key), faults)
		}
	case []any:
		for i, child := range n {
			numbers(child, at+"/"+strconv.Itoa(i), faults)
		}
	case json.Number:
		f, err := n.Float64()
		if err != nil || (f == math.Trunc(f) && math.Abs(f) > 1<<53-1) {
			*faults = append(*faults, Fault{Pointer: at, Keyword: "number"})
		}
	}
}

func leaves(e *validate.ValidationError, faults *[]Fault) {
	at := pointer(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, property := range k.Properties {
			*faults = append(*faults, Fault{at + "/" + escape(property), "additionalProperties"})
		}
		return
	case *kind.Required:
		for _, property := range k.Missing {
			*faults = append(*faults, Fault{at + "/" + escape(property), "required"})
		}
		return
	}
	if len(e.Causes) == 0 {
		path := e.ErrorKind.KeywordPath()
		keyword := "schema"
		if len(path) > 0 {
			keyword = path[0]
		}
		*faults = append(*faults, Fault{at, keyword})
		return
	}
	for _, cause := range e.Causes {
		leaves(cause, faults)
	}
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + escape(t))
	}
	return b.String()
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// escape writes one token of a JSON pointer (RFC 6901 section 3).
func escape(token string) string { return escaper.Replace(token) }
