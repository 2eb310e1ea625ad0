package main

import (
	"encoding/json"
	"fmt"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// bounds of a value that an input schema takes over from the description.
var carried = []string{"enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "description"}

// input makes the Go type and the schema of what a tool takes: the parameters in
// path and query, and the properties of the body.
func (r *apiReader) input(o *apiOperation, path string, op map[string]any) error {
	in := apiType{Name: upper(o.Func) + "Input", Doc: "is what " + o.Tool + " takes."}
	properties, required, sample := map[string]any{}, []string{}, map[string]any{}
	add := func(name string, node any, needed bool) (apiField, error) {
		if _, twice := properties[name]; twice {
			return apiField{}, fmt.Errorf("%q is there twice, in path, query or body", name)
		}
		kind, schema, value, err := r.value(name, node, in.Name)
		if err != nil {
			return apiField{}, err
		}
		field := apiField{Name: name, Go: camel(name, true), Type: kind, Optional: !needed, Tag: tag(name, !needed)}
		if field.Go == "" || slices.ContainsFunc(in.Fields, func(f apiField) bool { return f.Go == field.Go }) {
			return field, fmt.Errorf("%q makes no new field name in Go", name)
		}
		switch {
		case needed:
			required = append(required, name)
		case strings.HasPrefix(kind, "*"):
			return field, fmt.Errorf("%q may be null and may be left out, which a Go field can't tell apart", name)
		default:
			field.Type = optionalType(kind)
		}
		in.Fields = append(in.Fields, field)
		properties[name], sample[name] = schema, value
		return field, nil
	}
	goPath, undescribed := strconv.Quote(path), path
	list, _ := op["parameters"].([]any)
	for _, node := range list {
		p, err := r.resolve(node)
		if err != nil {
			return err
		}
		name, where := str(p["name"]), str(p["in"])
		needed := p["required"] == true
		if where != "path" && where != "query" {
			if needed {
				return fmt.Errorf("it needs %q in a %s, which a connector does not set", name, where)
			}
			continue
		}
		if p["style"] != nil || p["content"] != nil {
			return fmt.Errorf("parameter %q has a style of its own", name)
		}
		field, err := add(name, p["schema"], needed)
		if err != nil {
			return err
		}
		if strings.HasPrefix(field.Type, "[]") || needed && strings.HasPrefix(field.Type, "*") {
			return fmt.Errorf("parameter %q is no single value", name)
		}
		if where == "query" {
			o.Query = append(o.Query, field)
			continue
		}
		if !needed {
			return fmt.Errorf("parameter %q stands in the path and is not required", name)
		}
		placeholder := "{" + name + "}"
		goPath = strings.Replace(goPath, placeholder, `" + url.PathEscape(fmt.Sprint(in.`+field.Go+`)) + "`, 1)
		undescribed = strings.Replace(undescribed, placeholder, "", 1)
	}
	if strings.Contains(undescribed, "{") {
		return fmt.Errorf("its path has a parameter that is not described")
	}
	o.Path = strings.TrimSuffix(goPath, ` + ""`)
	if op["requestBody"] != nil && !o.Write {
		return fmt.Errorf("a GET with a body")
	}
	if o.Write {
		body, err := r.resolve(op["requestBody"])
		if err != nil {
			return fmt.Errorf("a POST without a body is written by hand")
		}
		schema, err := r.resolve(r.object(r.object(body["content"])["application/json"])["schema"])
		if err != nil || str(schema["type"]) != "object" {
			return fmt.Errorf("its body is no JSON object")
		}
		if err := closedObject(schema); err != nil {
			return err
		}
		needed, _ := schema["required"].([]any)
		all := r.object(schema["properties"])
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if p, err := r.resolve(all[name]); err == nil && p["readOnly"] == true {
				continue
			}
			field, err := add(name, all[name], slices.Contains(needed, any(name)))
			if err != nil {
				return err
			}
			o.Body = append(o.Body, field)
		}
		if len(o.Body) == 0 {
			return fmt.Errorf("its body has no properties")
		}
	}
	raw, err := json.MarshalIndent(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}, "", "  ")
	if err != nil {
		return err
	}
	if strings.Contains(string(raw), "`") {
		return fmt.Errorf("a text in its description has a backquote, which Go's raw strings can't hold")
	}
	o.Input, o.In = string(raw), in.Name
	arguments, err := json.Marshal(sample)
	o.Arguments = string(arguments)
	r.out.Types = append(r.out.Types, in)
	r.names[in.Name] = true
	return err
}

// output makes the type of the answer. What the provider sends beside the
// described properties never leaves.
func (r *apiReader) output(o *apiOperation, op map[string]any) error {
	schema, err := r.answer(op)
	if err != nil {
		return err
	}
	sample := map[string]any{}
	if o.Out, err = r.named(upper(o.Func)+"Output", schema, sample, "is what "+o.Tool+" returns."); err != nil {
		return err
	}
	raw, err := json.Marshal(sample)
	o.Sample = string(raw)
	if o.Write {
		out := r.out.Types[slices.IndexFunc(r.out.Types, func(t apiType) bool { return t.Name == o.Out })]
		for _, f := range out.Fields {
			if f.Name == "id" && !f.Optional {
				o.ID = map[string]string{"string": "o.ID", "int64": "strconv.FormatInt(o.ID, 10)"}[f.Type]
			}
		}
		if o.ID == "" {
			return fmt.Errorf("its answer has no required id, and without one a write can't be proven")
		}
	}
	return err
}

func (r *apiReader) answer(op map[string]any) (map[string]any, error) {
	responses := r.object(op["responses"])
	for _, status := range []string{"200", "201"} {
		if responses[status] == nil {
			continue
		}
		resp, err := r.resolve(responses[status])
		if err != nil {
			return nil, err
		}
		schema, err := r.resolve(r.object(r.object(resp["content"])["application/json"])["schema"])
		if err != nil || str(schema["type"]) != "object" {
			return nil, fmt.Errorf("its answer is no JSON object; a list is written by hand, with connector.List")
		}
		return schema, nil
	}
	return nil, fmt.Errorf("it describes no answer with status 200 or 201")
}

func closedObject(schema map[string]any) error {
	for _, keyword := range []string{"allOf", "oneOf", "anyOf", "not", "discriminator", "patternProperties"} {
		if schema[keyword] != nil {
			return fmt.Errorf("it uses %s, which has no single Go type", keyword)
		}
	}
	if ap := schema["additionalProperties"]; ap != nil && ap != false {
		return fmt.Errorf("it has an object with names that nobody knows beforehand")
	}
	return nil
}

// named makes a struct type of an object schema.
func (r *apiReader) named(name string, schema map[string]any, sample map[string]any, doc string) (string, error) {
	if err := closedObject(schema); err != nil {
		return "", err
	}
	if r.names[name] || len(r.out.Types) > 200 {
		return "", fmt.Errorf("there are two types called %s", name)
	}
	r.names[name] = true
	t := apiType{Name: name, Doc: doc}
	needed, _ := schema["required"].([]any)
	all := r.object(schema["properties"])
	if len(all) == 0 {
		return "", fmt.Errorf("it has an object without properties")
	}
	for _, property := range slices.Sorted(maps.Keys(all)) {
		kind, _, value, err := r.value(property, all[property], name)
		if err != nil {
			return "", err
		}
		optional := !slices.Contains(needed, any(property))
		field := apiField{Name: property, Go: camel(property, true), Type: kind, Optional: optional, Tag: tag(property, optional)}
		if field.Go == "" || slices.ContainsFunc(t.Fields, func(f apiField) bool { return f.Go == field.Go }) {
			return "", fmt.Errorf("%q makes no new field name in Go", property)
		}
		if optional {
			field.Type = optionalType(kind)
		}
		t.Fields = append(t.Fields, field)
		sample[property] = value
	}
	r.out.Types = append(r.out.Types, t)
	return name, nil
}

// value gives the Go type, the JSON schema and a sample of one property.
func (r *apiReader) value(name string, node any, within string) (kind string, schema map[string]any, sample any, err error) {
	n, err := r.resolve(node)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	schema = map[string]any{}
	for _, keyword := range carried {
		if n[keyword] != nil {
			schema[keyword] = n[keyword]
		}
	}
	// OpenAPI 3.0 had these as switches of minimum and maximum.
	for _, keyword := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		if _, isSwitch := schema[keyword].(bool); isSwitch {
			return "", nil, nil, fmt.Errorf("%s: %s is a switch there", name, keyword)
		}
	}
	t, nullable := str(n["type"]), n["nullable"] == true
	if list, ok := n["type"].([]any); ok && len(list) == 2 && slices.Contains(list, any("null")) {
		nullable = true
		t = str(list[0])
		if t == "null" {
			t = str(list[1])
		}
	}
	bounded := false
	for _, keyword := range carried {
		bounded = bounded || n[keyword] != nil && keyword != "description" && keyword != "enum"
	}
	switch t {
	case "string":
		kind, sample = "string", "sample"
	case "integer":
		kind, sample = "int64", json.Number("7")
	case "number":
		kind, sample = "float64", json.Number("1.5")
	case "boolean":
		kind, sample = "bool", true
	case "array":
		itemKind, itemSchema, item, err := r.value(name, n["items"], within)
		if err != nil {
			return "", nil, nil, err
		}
		kind, sample, schema["items"] = "[]"+itemKind, []any{item}, itemSchema
	case "object":
		if strings.HasSuffix(within, "Input") {
			return "", nil, nil, fmt.Errorf("%s: an object inside the input is written by hand", name)
		}
		inner := map[string]any{}
		if kind, err = r.named(within+camel(name, true), n, inner, "is a part of "+within+"."); err != nil {
			return "", nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		sample = inner
	default:
		return "", nil, nil, fmt.Errorf("%s: it has no single type", name)
	}
	enum, _ := n["enum"].([]any)
	switch example := n["example"]; {
	case len(enum) > 0:
		sample = enum[0]
	case example != nil && reflect.TypeOf(example) == reflect.TypeOf(sample):
		sample = example
	case bounded && strings.HasSuffix(within, "Input"):
		// The test that is written beside it needs a value that is taken.
		return "", nil, nil, fmt.Errorf("%s: it has bounds and no example", name)
	}
	schema["type"] = t
	if nullable {
		schema["type"], kind = []string{t, "null"}, "*"+kind
	}
	return kind, schema, sample, nil
}

func optionalType(kind string) string {
	if strings.HasPrefix(kind, "*") || strings.HasPrefix(kind, "[]") {
		return kind
	}
	return "*" + kind
}

func tag(name string, optional bool) string {
	if optional {
		name += ",omitzero"
	}
	return "`json:\"" + name + "\"`"
}

// words splits a foreign name where its case or a sign does.
func words(name string) (all []string) {
	var word []rune
	for _, c := range name {
		split := unicode.IsUpper(c) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1])
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') || split {
			if len(word) > 0 {
				all = append(all, strings.ToLower(string(word)))
			}
			word = nil
			if !split {
				continue
			}
		}
		word = append(word, c)
	}
	if len(word) > 0 {
		all = append(all, strings.ToLower(string(word)))
	}
	return all
}

func camel(name string, exported bool) string {
	s := ""
	for i, w := range words(name) {
		switch {
		case i == 0 && !exported:
			s += w
		case w == "id" || w == "url":
			s += strings.ToUpper(w)
		default:
			s += upper(w)
		}
	}
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return ""
	}
	return s
}

func snake(name string) string { return strings.Join(words(name), "_") }

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// goReserved: names that the generated file needs itself.
func goReserved(name string) bool {
	return token.IsKeyword(name) || slices.Contains([]string{"connector", "context", "json", "http", "url", "fmt", "strconv", "identify", "string", "any", "error", "init", "main"}, name)
}

// oneLine makes a text fit into a Go string on one line.
func oneLine(text, otherwise string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		text = otherwise
	}
	if r := []rune(text); len(r) > 300 {
		text = string(r[:299]) + "…"
	}
	return text
}
