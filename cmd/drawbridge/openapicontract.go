package main

import (
	"encoding/json"
	"slices"
	"strings"
)

// apiContract is which of the operations the contract kit can use by itself: a
// read of one object by its id, and a write that carries a text. Without them,
// the checks of reads or writes are not claimed, and the author says which.
type apiContract struct{ Read, Write *apiUse }

// apiUse is one operation and how a provider is played for it.
type apiUse struct {
	Tool      string
	Arguments string // JSON that is taken
	Argument  string // the property that is the id of a read, the text of a write
	Number    bool   // the id is one
	Path      string // of a read: without the id
	Sample    string // an answer, JSON
	Text      string // the property of a read's answer that holds the text
}

// contractUses picks the first of each that there is.
func (r *apiReader) contractUses() (c apiContract) {
	for i := range r.out.Operations {
		o := &r.out.Operations[i]
		if strings.Contains(o.Arguments+o.Sample, "`") {
			continue // what a raw string can't hold
		}
		if o.Write && c.Write == nil {
			c.Write = r.writeUse(o)
		} else if !o.Write && c.Read == nil {
			c.Read = r.readUse(o)
		}
	}
	return c
}

func (r *apiReader) fields(typeName string) []apiField {
	i := slices.IndexFunc(r.out.Types, func(t apiType) bool { return t.Name == typeName })
	return r.out.Types[i].Fields
}

func (r *apiReader) readUse(o *apiOperation) *apiUse {
	parent, last, ok := strings.Cut(o.template, "/{")
	name, end := strings.CutSuffix(last, "}")
	if !ok || !end || parent == "" || strings.ContainsAny(name, "{}/") {
		return nil
	}
	u := &apiUse{Tool: o.Tool, Arguments: o.Arguments, Argument: name, Path: parent, Sample: o.Sample}
	for _, f := range r.fields(o.In) {
		if f.Name == name {
			u.Number = f.Type == "int64"
		}
	}
	if u.Text = textOf(r.fields(o.Out), func(string) bool { return true }); u.Text == "" || bounded(o.Input, name) {
		return nil
	}
	return u
}

func (r *apiReader) writeUse(o *apiOperation) *apiUse {
	u := &apiUse{Tool: o.Tool, Arguments: o.Arguments, Path: o.template, Sample: o.Sample, Number: o.ID != "o.ID"}
	u.Argument = textOf(o.Body, func(name string) bool { return !bounded(o.Input, name) })
	if u.Argument == "" || strings.Contains(o.template, "{") {
		return nil
	}
	return u
}

// textOf is the property that is most likely to be free text.
func textOf(fields []apiField, free func(name string) bool) (found string) {
	likely := []string{"title", "name", "subject", "summary", "text", "description", "body", "message"}
	for _, f := range fields {
		if strings.TrimPrefix(f.Type, "*") != "string" || f.Name == "id" || !free(f.Name) {
			continue
		}
		if found == "" || slices.Contains(likely, f.Name) && !slices.Contains(likely, found) {
			found = f.Name
		}
	}
	return found
}

// shortest is how many characters the texts of the kit need.
const shortest = 80

// bounded reports whether a property of a schema takes only some texts.
func bounded(schema, name string) bool {
	var s struct {
		Properties map[string]struct {
			Enum, Pattern        any
			MaxLength, MinLength *int
		}
	}
	if json.Unmarshal([]byte(schema), &s) != nil {
		return true
	}
	p := s.Properties[name]
	return p.Enum != nil || p.Pattern != nil || p.MinLength != nil && *p.MinLength > 1 || p.MaxLength != nil && *p.MaxLength < shortest
}
