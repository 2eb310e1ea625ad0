package surface

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"
	"github.com/drawbridge-dev/drawbridge/connector/manifest"
)

const (
	maxBytes  = 8 << 20
	maxFaults = 100 // past that, a file isn't a lock file with mistakes
)

// A Fault is one thing wrong with a lock file, and where.
type Fault = strictjson.PlacedFault

// Read reads one lock file strictly: an unknown key, a key that is there twice
// (in a schema, too), a tool without a capability and everything that
// [manifest.Parse] refuses are faults. The error joins one [Fault] for each,
// with its line; where the text isn't JSON, the first such place is the only one.
func Read(r io.Reader) (Surface, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return Surface{}, err
	}
	if len(raw) > maxBytes {
		return Surface{}, fmt.Errorf("the lock file is over the limit of %d bytes", maxBytes)
	}
	root, malformed := strictjson.Parse(raw)
	if malformed != nil {
		return Surface{}, strictjson.Placed(raw, *malformed)
	}
	rd := reader{Reader: new(strictjson.Reader), raw: raw}
	s := rd.surface(root)
	faults := rd.manifest
	for _, f := range rd.Faults() {
		faults = append(faults, strictjson.Placed(raw, f))
	}
	if len(faults) == 0 {
		return s, nil
	}
	slices.SortStableFunc(faults, func(a, b *Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	var all []error
	for _, f := range faults[:min(len(faults), maxFaults)] {
		all = append(all, f)
	}
	return Surface{}, errors.Join(all...)
}

// A reader knows the lock file's keys.
type reader struct {
	*strictjson.Reader
	raw      []byte
	manifest []*Fault
}

func (r *reader) surface(root strictjson.Node) (s Surface) {
	var tools strictjson.Node
	r.Object(root, "", map[string]strictjson.Field{
		"surface": {Read: func(n strictjson.Node, at string) {
			if n.Kind != '0' || n.Text != strconv.Itoa(Format) {
				r.Fault(n, at, "must be the number %d, the only format there is", Format)
			}
			s.Format = Format
		}},
		"manifest": {Read: func(n strictjson.Node, at string) { s.Manifest = r.readManifest(n, at) }},
		"tools":    {Read: func(n strictjson.Node, _ string) { tools = n }},
	})
	if tools.Kind == 0 {
		return s
	}
	s.Tools = []Tool{}
	missing := map[string]bool{}
	for _, c := range s.Manifest.Capabilities {
		missing[c.Name] = true
	}
	r.List(tools, "/tools", func(n strictjson.Node, at string) {
		t := r.tool(n, at)
		// Without a readable manifest there is nothing to compare with.
		if t.Name != "" && len(r.manifest) == 0 && !missing[t.Name] {
			r.Fault(n, at, "is there twice or is no capability of the manifest")
		}
		delete(missing, t.Name)
		s.Tools = append(s.Tools, t)
	})
	if len(missing) > 0 {
		r.Fault(tools, "/tools", "lacks capabilities of the manifest: %d", len(missing))
	}
	return s
}

func (r *reader) tool(n strictjson.Node, at string) (t Tool) {
	r.Object(n, at, map[string]strictjson.Field{
		"name":        r.Text(&t.Name),
		"title":       r.Text(&t.Title),
		"description": r.Text(&t.Description),
		"input":       r.schema(&t.Input),
		"output":      r.schema(&t.Output),
	})
	return t
}

func (r *reader) schema(into *json.RawMessage) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		if n.Kind != '{' {
			r.Fault(n, at, "must be a JSON Schema object")
			return
		}
		r.once(n, at)
		*into = slices.Clone(r.text(n))
	}}
}

// once reports names that an object has twice: readers disagree about which of
// the two counts, and a review must not show another schema than a program reads.
func (r *reader) once(n strictjson.Node, at string) {
	seen := map[string]bool{}
	for _, m := range n.Members {
		here := at + "/" + escape(m.Name)
		if seen[m.Name] {
			r.Fault(strictjson.Node{At: m.At}, here, "is there twice")
		}
		seen[m.Name] = true
		r.once(m.Value, here)
	}
	for i, item := range n.Items {
		r.once(item, at+"/"+strconv.Itoa(i))
	}
}

// text is a value's own bytes. The document was parsed before, so the decoder
// finds a value there.
func (r *reader) text(n strictjson.Node) json.RawMessage {
	var value json.RawMessage
	_ = json.NewDecoder(bytes.NewReader(r.raw[n.At:])).Decode(&value)
	return value
}

// readManifest leaves the manifest to the package that owns its form. Blanks in
// place of what stands before it keep the lines and columns right.
func (r *reader) readManifest(n strictjson.Node, at string) manifest.Manifest {
	before := bytes.Map(func(c rune) rune {
		if c == '\n' {
			return c
		}
		return ' '
	}, r.raw[:n.At])
	m, err := manifest.Parse(append(before, r.text(n)...))
	for _, e := range each(err) {
		var f *Fault
		if errors.As(e, &f) {
			f.Pointer = at + f.Pointer
			r.manifest = append(r.manifest, f)
		} else {
			r.Fault(n, at, "can't be read: %v", e)
		}
	}
	return m
}

func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
