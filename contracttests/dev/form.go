package dev

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// node is the part of a JSON Schema that a form can show. What it can't is written
// as JSON.
type node struct {
	Type        any              `json:"type"`
	Description string           `json:"description"`
	Properties  map[string]*node `json:"properties"`
	Required    []string         `json:"required"`
	Enum        []any            `json:"enum"`
	Items       *node            `json:"items"`
	Format      string           `json:"format"`
	Pattern     string           `json:"pattern"`
	MinLength   *int             `json:"minLength"`
	MaxLength   *int             `json:"maxLength"`
	MinItems    *int             `json:"minItems"`
	MaxItems    *int             `json:"maxItems"`
	Minimum     *json.Number     `json:"minimum"`
	Maximum     *json.Number     `json:"maximum"`
	Default     json.RawMessage  `json:"default"`
}

// kind is how a value is entered.
type kind string

const (
	kindLine   kind = "line"
	kindText   kind = "text"
	kindNumber kind = "number"
	kindChoice kind = "choice"
	kindLines  kind = "lines" // one item a line
	kindGroup  kind = "group"
	kindJSON   kind = "json"
)

const (
	longText  = 300 // characters, from which a text gets several lines
	longHint  = 30  // a pattern beyond it explains nothing
	maxGroups = 6   // objects in each other that get fields
)

// types are the type names without null, and whether null is among them.
func (n *node) types() (names []string, null bool) {
	switch t := n.Type.(type) {
	case string:
		names = []string{t}
	case []any:
		for _, v := range t {
			if v == "null" {
				null = true
			} else if s, ok := v.(string); ok {
				names = append(names, s)
			}
		}
	}
	return names, null
}

func (n *node) kind(depth int) kind {
	names, _ := n.types()
	switch {
	case len(n.Enum) > 0:
		return kindChoice
	case len(names) != 1:
		return kindJSON
	}
	switch names[0] {
	case "boolean":
		return kindChoice
	case "integer", "number":
		return kindNumber
	case "string":
		if n.Format != "" || n.MaxLength == nil && n.Pattern != "" || n.MaxLength != nil && *n.MaxLength < longText {
			return kindLine
		}
		return kindText
	case "array":
		if n.Items != nil {
			if of, _ := n.Items.types(); len(of) == 1 && (of[0] == "string" || of[0] == "integer" || of[0] == "number") {
				return kindLines
			}
		}
	case "object":
		if len(n.Properties) > 0 && depth < maxGroups {
			return kindGroup
		}
	}
	return kindJSON
}

// A field is one input of a form.
type field struct {
	ID       string
	Pointer  string // RFC 6901; the name of the input
	Name     string
	Kind     kind
	Doc      string
	Hint     string
	Required bool
	Value    string
	Options  []option
	Faults   []string
	Fields   []*field
	node     *node
}

type option struct {
	Value, Label string
	Selected     bool
}

// form makes the fields of a schema, filled with arguments and with what is wrong
// with them. The faults that belong to no field come back.
func form(schema, arguments json.RawMessage, faults []connector.Fault) (fields []*field, rest []string) {
	var root node
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	if d.Decode(&root) != nil {
		return nil, nil // no runtime loads such a schema
	}
	var value any
	d = json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	_ = d.Decode(&value) // arguments that are no JSON fill nothing
	f := formMaker{faults: map[string][]string{}}
	for _, one := range faults {
		f.faults[one.Pointer] = append(f.faults[one.Pointer], one.Keyword)
	}
	fields = f.group(&root, "", value, 0)
	for _, one := range faults {
		if f.faults[one.Pointer] != nil {
			at := one.Pointer
			if at == "" {
				at = "the whole input"
			}
			rest = append(rest, at+": "+words(one.Keyword))
		}
	}
	return fields, rest
}

// wrong are the fields with faults, at any depth.
func wrong(fields []*field) (all []*field) {
	for _, f := range fields {
		if len(f.Faults) > 0 {
			all = append(all, f)
		}
		all = append(all, wrong(f.Fields)...)
	}
	return all
}

type formMaker struct {
	faults map[string][]string
	n      int
}

func (f *formMaker) group(n *node, at string, value any, depth int) (fields []*field) {
	values, _ := value.(map[string]any)
	for _, required := range []bool{true, false} { // what is required comes first
		for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
			if slices.Contains(n.Required, name) == required {
				v, given := values[name]
				fields = append(fields, f.field(n.Properties[name], name, at+"/"+escape(name), v, given, required, depth+1))
			}
		}
	}
	return fields
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func (f *formMaker) field(n *node, name, at string, value any, given, required bool, depth int) *field {
	f.n++
	x := &field{ID: fmt.Sprint("f", f.n), Pointer: at, Name: name, Kind: n.kind(depth), Doc: n.Description, Hint: n.hint(), Required: required, node: n}
	for _, keyword := range f.faults[at] {
		x.Faults = append(x.Faults, words(keyword))
	}
	delete(f.faults, at)
	switch x.Kind {
	case kindGroup:
		x.Fields = f.group(n, at, value, depth)
	case kindChoice:
		x.options(value, given)
	case kindLines:
		items, ok := value.([]any)
		var lines []string
		for i, item := range items {
			lines = append(lines, asTyped(item))
			// A fault of one item is a fault of the list's text.
			here := fmt.Sprint(at, "/", i)
			for _, keyword := range f.faults[here] {
				x.Faults = append(x.Faults, fmt.Sprintf("line %d %s", i+1, words(keyword)))
			}
			delete(f.faults, here)
		}
		if x.Value = strings.Join(lines, "\n"); given && !ok {
			x.Value = asTyped(value)
		}
	default:
		if given {
			x.Value = asTyped(value)
		}
		if _, text := value.(string); x.Kind == kindJSON && given && !text {
			x.Value = compact(value)
		}
	}
	return x
}

func (f *field) options(value any, given bool) {
	values := f.node.Enum
	if len(values) == 0 {
		values = []any{true, false}
	}
	f.Options = []option{{Label: "(left out)", Selected: !given}}
	for _, v := range values {
		raw := compact(v)
		f.Options = append(f.Options, option{Value: raw, Label: asTyped(v), Selected: given && raw == compact(value)})
	}
}

// asTyped is a value as a person would enter it.
func asTyped(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return compact(v)
}

func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// hint says which values are taken.
func (n *node) hint() string {
	var parts []string
	add := func(format string, v any) { parts = append(parts, fmt.Sprintf(format, v)) }
	if n.MinLength != nil && *n.MinLength == 1 {
		parts = append(parts, "not empty")
	} else if n.MinLength != nil && *n.MinLength > 1 {
		add("at least %d characters", *n.MinLength)
	}
	if n.MaxLength != nil {
		add("at most %d characters", *n.MaxLength)
	}
	if n.MinItems != nil && *n.MinItems > 0 {
		add("at least %d", *n.MinItems)
	}
	if n.MaxItems != nil {
		add("at most %d", *n.MaxItems)
	}
	if n.Minimum != nil {
		add("from %s", *n.Minimum)
	}
	if n.Maximum != nil {
		add("to %s", *n.Maximum)
	}
	if n.Format != "" {
		add("a %s", n.Format)
	}
	if n.Pattern != "" && len(n.Pattern) <= longHint {
		add("fits %s", n.Pattern)
	}
	if len(n.Default) > 0 {
		add("left out, it is %s", n.Default)
	}
	return strings.Join(parts, ", ")
}

// words says a keyword of JSON Schema as a person would; the keyword stays, because
// it is what a program is told.
func words(keyword string) string {
	said := map[string]string{
		"required": "is missing", "type": "has another type", "enum": "is none of the values that there are", "minLength": "is too short",
		"maxLength": "is too long", "minimum": "is too small", "maximum": "is too large", "pattern": "has another form", "format": "has another form",
		"minItems": "has too few items", "maxItems": "has too many items", "uniqueItems": "has an item twice", "additionalProperties": "is not taken here",
	}[keyword]
	if said == "" {
		return "breaks " + keyword
	}
	return said + " (" + keyword + ")"
}

// arguments are what a filled form says. Nothing is put right on the way: what is
// wrong with it is the runtime's to say.
func arguments(fields []*field, form url.Values) json.RawMessage {
	return json.RawMessage(compact(readGroup(fields, form)))
}

func readGroup(fields []*field, form url.Values) map[string]any {
	values := map[string]any{}
	for _, f := range fields {
		if v, ok := f.read(form); ok {
			values[f.Name] = v
		}
	}
	return values
}

// read is a field's value; false leaves it out.
func (f *field) read(form url.Values) (any, bool) {
	if f.Kind == kindGroup {
		group := readGroup(f.Fields, form)
		return group, len(group) > 0 || f.Required
	}
	// Browsers end lines with CR LF, whatever was typed.
	text := strings.ReplaceAll(form.Get(f.Pointer), "\r\n", "\n")
	if f.Kind == kindLines {
		items := []any{}
		of, _ := f.node.Items.types()
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				items = append(items, scalar(line, of[0] != "string"))
			}
		}
		return items, len(items) > 0 || f.Required
	}
	_, null := f.node.types()
	switch {
	case text != "":
		return scalar(text, f.Kind != kindLine && f.Kind != kindText), true
	case !f.Required:
		return nil, false
	case null:
		return nil, true
	}
	// An empty text is a text; there is no empty number.
	return "", f.Kind == kindLine || f.Kind == kindText
}

// scalar reads JSON where JSON is meant. What is none stays text, so that the
// answer is a fault at this place.
func scalar(text string, isJSON bool) any {
	if isJSON && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}
