// Package schema holds closed JSON Schema 2020-12 objects: derived from a Go type
// or given by an author, refused when open, and validated with every fault at
// once. Nothing is loaded from outside the document.
package schema

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

// A Fault is one thing wrong with a document: where (RFC 6901) and which keyword
// of its schema it breaks.
type Fault struct{ Pointer, Keyword string }

// A Schema is a closed object in both of its forms. It doesn't change.
type Schema struct {
	Raw      json.RawMessage
	doc      map[string]any
	compiled *validate.Schema
	sketch   *sketch // may be nil
}

// For takes the author's schema, or derives one from the type when it is nil.
// Extend, if there is one, may add what is not the author's to the document.
func For[T any](given []byte, extend func(doc map[string]any)) (*Schema, error) {
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
	if extend != nil {
		extend(doc)
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
	return &Schema{normal, doc, compiled, sketchOf(doc, doc, 0)}, nil
}

// closed refuses a schema that would take an object with properties it doesn't
// declare: a model could then smuggle arguments past review, and a provider
// fields. So every place must say what it takes, and objects must be closed.
func closed(doc map[string]any) error {
	var faults []error
	walk(doc, "", func(at string, node any) {
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

// walk visits every place where a schema stands, in a stable order. Names
// of properties and values of enum, const, default and examples are no schemas,
// whatever they look like.
func walk(node any, at string, visit func(at string, node any)) {
	visit(at, node)
	n, _ := node.(map[string]any)
	for _, keyword := range slices.Sorted(maps.Keys(n)) {
		child, here := n[keyword], at+"/"+keyword
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			named, _ := child.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(named)) {
				walk(named[name], here+"/"+escape(name), visit)
			}
		case "prefixItems", "anyOf", "oneOf", "allOf":
			list, _ := child.([]any)
			for i, branch := range list {
				walk(branch, here+"/"+strconv.Itoa(i), visit)
			}
		case "items", "contains", "if", "then", "else", "propertyNames", "unevaluatedItems":
			walk(child, here, visit)
		}
	}
}

// Properties visits the name of every property that the schema declares, at any depth.
func (s *Schema) Properties(visit func(name string)) {
	walk(s.doc, "", func(_ string, node any) {
		n, _ := node.(map[string]any)
		declared, _ := n["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(declared)) {
			visit(name)
		}
	})
}

// Check validates raw and returns every fault at once, sorted by pointer and
// keyword so that the answer is stable. Nothing is coerced.
func (s *Schema) Check(raw []byte) []Fault {
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

// validate is Check for what our own encoder wrote: no duplicate names, no
// number that a float64 can't hold unless an author put it there.
func (s *Schema) validate(raw []byte) []Fault {
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

// sameNames compares a given schema's top level with the Go type that will be
// decoded, so that the two can't drift apart unseen.
func sameNames(doc map[string]any, t reflect.Type) error {
	if t.Kind() != reflect.Struct {
		return nil
	}
	declared, _ := doc["properties"].(map[string]any)
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = true
		if _, ok := declared[name]; !ok {
			return fmt.Errorf("%s has a field %q that the schema does not declare", t, name)
		}
	}
	for property := range declared {
		if !fields[property] {
			return fmt.Errorf("the schema declares %q, which %s has no field for", property, t)
		}
	}
	return nil
}
