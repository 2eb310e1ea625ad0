package strictjson

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A Reader walks nodes and collects what is wrong. The zero value is ready.
type Reader struct{ faults []Fault }

// Fault records one thing wrong with a node.
func (r *Reader) Fault(n Node, pointer, format string, args ...any) {
	r.faults = append(r.faults, Fault{n.At, pointer, fmt.Sprintf(format, args...)})
}

// Faults returns what was found, in the order of the text.
func (r *Reader) Faults() []Fault {
	slices.SortStableFunc(r.faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return r.faults
}

// A Field is how the value of one key is read.
type Field struct {
	Read     func(n Node, at string)
	optional bool
}

// Optional is a field whose key may be left out.
func Optional(f Field) Field {
	f.optional = true
	return f
}

// Object reads exactly the keys of fields. A key that is there twice is read
// once, the first time.
func (r *Reader) Object(n Node, at string, fields map[string]Field) {
	if n.Kind != '{' {
		r.Fault(n, at, "must be an object")
		return
	}
	seen := map[string]bool{}
	for _, m := range n.Members {
		pointer := at + "/" + string(jsontext.Pointer("").AppendToken(m.Name))[1:]
		f, known := fields[m.Name]
		switch {
		case seen[m.Name]:
			r.Fault(Node{At: m.At}, pointer, "is there twice")
		case !known:
			r.Fault(Node{At: m.At}, pointer, "is not a key of this format")
		default:
			f.Read(m.Value, pointer)
		}
		seen[m.Name] = true
	}
	var missing []string
	for name, f := range fields {
		if !f.optional && !seen[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		r.Fault(n, at, "lacks the key %s", strings.Join(missing, ", "))
	}
}

// Text reads a string that isn't blank.
func (r *Reader) Text(into *string) Field {
	return Field{Read: func(n Node, at string) {
		if n.Kind != '"' || strings.TrimSpace(n.Text) == "" {
			r.Fault(n, at, "must be a string that says something")
			return
		}
		*into = n.Text
	}}
}

// Matches reads a string of one form; what names the form.
func (r *Reader) Matches(into *string, pattern *regexp.Regexp, what string) Field {
	return Field{Read: func(n Node, at string) {
		if n.Kind != '"' || !pattern.MatchString(n.Text) {
			r.Fault(n, at, "must be %s", what)
			return
		}
		*into = n.Text
	}}
}

// Texts reads a list of different strings. An empty list is not nil, and what
// is no list leaves nil.
func (r *Reader) Texts(into *[]string) Field {
	return Field{Read: func(n Node, at string) {
		if n.Kind == '[' {
			*into = []string{}
		}
		r.List(n, at, func(item Node, pointer string) {
			var s string
			r.Text(&s).Read(item, pointer)
			if s != "" && slices.Contains(*into, s) {
				r.Fault(item, pointer, "is there twice")
			}
			*into = append(*into, s)
		})
	}}
}

// List calls read for each item of a list.
func (r *Reader) List(n Node, at string, read func(item Node, pointer string)) {
	if n.Kind != '[' {
		r.Fault(n, at, "must be a list")
		return
	}
	for i, item := range n.Items {
		read(item, at+"/"+strconv.Itoa(i))
	}
}
