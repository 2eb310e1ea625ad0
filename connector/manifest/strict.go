package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A reader walks the nodes and keeps going after a fault.
type reader struct{ found []found }

type found struct {
	at               int
	pointer, problem string
}

func (r *reader) fault(n node, pointer, format string, args ...any) {
	r.found = append(r.found, found{n.at, pointer, fmt.Sprintf(format, args...)})
}

// A field is how the value of one key is read.
type field struct {
	read     func(n node, at string)
	optional bool
}

func optional(f field) field {
	f.optional = true
	return f
}

// object reads exactly the keys of fields. A key that is there twice is read
// once, the first time.
func (r *reader) object(n node, at string, fields map[string]field) {
	if n.kind != '{' {
		r.fault(n, at, "must be an object")
		return
	}
	seen := map[string]bool{}
	for _, m := range n.members {
		pointer := at + "/" + string(jsontext.Pointer("").AppendToken(m.name))[1:]
		f, known := fields[m.name]
		switch {
		case seen[m.name]:
			r.fault(node{at: m.at}, pointer, "is there twice")
		case !known:
			r.fault(node{at: m.at}, pointer, "is not a key of this format")
		default:
			f.read(m.value, pointer)
		}
		seen[m.name] = true
	}
	var missing []string
	for name, f := range fields {
		if !f.optional && !seen[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		r.fault(n, at, "lacks the key %s", strings.Join(missing, ", "))
	}
}

func (n node) member(name string) (node, bool) {
	for _, m := range n.members {
		if m.name == name {
			return m.value, true
		}
	}
	return node{}, false
}

func (r *reader) text(into *string) field {
	return field{read: func(n node, at string) {
		if n.kind != '"' || strings.TrimSpace(n.text) == "" {
			r.fault(n, at, "must be a string that says something")
			return
		}
		*into = n.text
	}}
}

func (r *reader) matches(into *string, pattern *regexp.Regexp, what string) field {
	return field{read: func(n node, at string) {
		if n.kind != '"' || !pattern.MatchString(n.text) {
			r.fault(n, at, "must be %s", what)
			return
		}
		*into = n.text
	}}
}

func (r *reader) texts(into *[]string) field {
	return field{read: func(n node, at string) {
		if n.kind != '[' {
			r.fault(n, at, "must be a list")
			return
		}
		*into = []string{}
		for i, item := range n.items {
			var s string
			pointer := at + "/" + strconv.Itoa(i)
			r.text(&s).read(item, pointer)
			if s != "" && slices.Contains(*into, s) {
				r.fault(item, pointer, "is there twice")
			}
			*into = append(*into, s)
		}
	}}
}
