package surface

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/manifest"
)

// FileName is what the lock file is called, beside the connector's code.
const FileName = "connector.lock.json"

// Format is the version of the lock file's own form.
const Format = 1

// A Surface is everything about a connector that others rely on. It has nothing
// that depends on the order in which the code lists things.
type Surface struct {
	Format   int               `json:"surface"` // always [Format]
	Manifest manifest.Manifest `json:"manifest"`
	Tools    []Tool            `json:"tools"` // one for each capability, by name
}

// A Tool is what callers of one operation see beside its risk classes.
type Tool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"` // models act on it, so it is kept
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output"`
}

// Of takes the surface of a connector. Like [manifest.Of] it judges nothing: a
// connector that connector.Lint refuses may give a surface that [Read] refuses.
func Of(c connector.Connector) Surface {
	s := Surface{Format: Format, Manifest: manifest.Of(c), Tools: []Tool{}}
	slices.Sort(s.Manifest.Auth.Scopes)
	slices.Sort(s.Manifest.Output.Excluded)
	for _, capability := range s.Manifest.Capabilities {
		slices.Sort(capability.Scopes)
	}
	slices.SortStableFunc(s.Manifest.Capabilities, func(a, b manifest.Capability) int { return cmp.Compare(a.Name, b.Name) })
	for _, d := range c.Definitions() {
		s.Tools = append(s.Tools, Tool{Name: d.Name, Title: d.Title, Description: d.Description, Input: d.InputSchema, Output: d.OutputSchema})
	}
	slices.SortStableFunc(s.Tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// Write writes the lock file. One surface has one text: keys of schemas are
// sorted, and nothing in it says when or where it was written.
func Write(w io.Writer, s Surface) error {
	tools := []Tool{} // not null when there are none
	for _, t := range s.Tools {
		var err error
		if t.Input, err = sorted(t.Input); err != nil {
			return err
		}
		if t.Output, err = sorted(t.Output); err != nil {
			return err
		}
		tools = append(tools, t)
	}
	s.Tools = tools
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// sorted writes a schema with its keys in order. Numbers keep their digits.
func sorted(raw json.RawMessage) (json.RawMessage, error) {
	doc, err := decode(raw)
	return json.RawMessage(jsonText(doc)), err
}

func decode(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var doc any
	err := d.Decode(&doc)
	return doc, err
}
