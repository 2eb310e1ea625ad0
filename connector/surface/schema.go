package surface

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A way is how a place of a schema changed: what it accepts now, against before.
type way int

const (
	same     way = 0
	narrower way = 1
	wider    way = 2
	other    way = narrower | wider // neither contains the other, as far as can be told
)

// A change is one keyword at one place that differs.
type change struct {
	at      string // of the value: /items/*/title
	keyword string
	was, is string
	way     way
}

// schema compares what a tool takes or returns.
func (d *diff) schema(subject string, old, new json.RawMessage, output bool) {
	was, errOld := decode(old)
	is, errNew := decode(new)
	if errOld != nil || errNew != nil {
		d.breaking(subject, "can't be compared: it is not JSON")
		return
	}
	w := walker{old: was, new: is, output: output, met: map[[2]string]bool{}}
	w.node("", was, is)
	annotated := false
	for _, c := range w.changes {
		place := strings.TrimSpace(subject + " " + c.at)
		hurts := narrower
		if output {
			hurts = wider
		}
		switch {
		case c.keyword == annotation:
			annotated = true
		case c.way&hurts != 0:
			d.breaking(place, "%s", c.text(output))
		default:
			d.compatible(Minor, place, "%s", c.text(output))
		}
	}
	if annotated {
		d.compatible(Patch, subject, "the descriptions in the schema changed")
	}
}

// Keywords of changes that need words of their own.
const (
	annotation = "annotation"
	property   = "property"
	required   = "required"
	defaults   = "default"
)

func (c change) text(output bool) string {
	switch {
	case c.keyword == property && c.is != "" && output:
		return "is new; readers pass over what they don't know"
	case c.keyword == property && c.is != "":
		return "is new"
	case c.keyword == property && output:
		return "is gone"
	case c.keyword == property:
		return "is no longer taken"
	case c.keyword == required && c.is != "" && output:
		return "is always there now"
	case c.keyword == required && c.is != "":
		return "is required now"
	case c.keyword == required && output:
		return "is not always there any more"
	case c.keyword == required:
		return "may be left out now"
	case c.keyword == defaults:
		return fmt.Sprintf("leaving it out meant %s, and means %s", c.was, c.is)
	}
	more := map[bool]string{true: "returns", false: "takes"}[output]
	meaning := map[way]string{narrower: more + " less", wider: more + " more", other: "can't be compared"}[c.way]
	return fmt.Sprintf("%s was %s, is %s: %s", c.keyword, c.was, c.is, meaning)
}

// A walker goes through two schemas together.
type walker struct {
	old, new any // the documents that references point into
	output   bool
	met      map[[2]string]bool
	changes  []change
}

func (w *walker) add(at, keyword string, was, is any, how way) {
	if how != same {
		w.changes = append(w.changes, change{at, keyword, show(was), show(is), how})
	}
}

// annotations change nothing about which values fit.
var annotations = []string{"title", "description", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}

// structure is compared keyword by keyword below.
var structure = []string{"type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "default", "$defs"}

// bounds and whether a larger number accepts more.
var bounds = map[string]bool{
	"maximum": true, "exclusiveMaximum": true, "maxLength": true, "maxItems": true, "maxProperties": true,
	"minimum": false, "exclusiveMinimum": false, "minLength": false, "minItems": false, "minProperties": false,
}

func (w *walker) node(at string, was, is any) {
	was, refOld := resolve(w.old, was)
	is, refNew := resolve(w.new, is)
	if refOld != "" && refNew != "" {
		// A recursive type: the pair is being compared further up.
		pair := [2]string{refOld, refNew}
		if w.met[pair] {
			return
		}
		w.met[pair] = true
	}
	o, okOld := was.(map[string]any)
	n, okNew := is.(map[string]any)
	if !okOld || !okNew {
		if !reflect.DeepEqual(was, is) {
			w.add(at, "schema", was, is, other)
		}
		return
	}
	if !reflect.DeepEqual(only(o, annotations), only(n, annotations)) {
		w.add(at, annotation, nil, nil, wider)
	}
	w.values(at, o, n)
	w.properties(at, o, n)
	w.branches(at, o, n)
	w.defaults(at, o, n)
	w.items(at, o["items"], n["items"])
	for _, keyword := range keywords(o, n) {
		larger, isBound := bounds[keyword]
		switch {
		case slices.Contains(annotations, keyword) || slices.Contains(structure, keyword):
		case isBound:
			w.bound(at, keyword, o[keyword], n[keyword], larger)
		case w.identical(keyword, o[keyword], n[keyword]):
		case slices.Contains(constraints, keyword):
			w.add(at, keyword, o[keyword], n[keyword], constraint(o[keyword], n[keyword]))
		default:
			w.add(at, keyword, o[keyword], n[keyword], other)
		}
	}
}

func (w *walker) items(at string, was, is any) {
	if was != nil && is != nil {
		w.node(at+"/*", was, is)
	} else if was != nil || is != nil {
		w.add(at, "items", was, is, constraint(was, is))
	}
}

// constraints can only take values away, whatever stands beside them.
var constraints = []string{"pattern", "format", "multipleOf", "uniqueItems", "not", "contains", "maxContains", "dependentRequired", "propertyNames"}

// constraint: one that was added narrows, one that was taken away widens, and
// one that changed can't be compared.
func constraint(was, is any) way {
	switch {
	case was == nil:
		return narrower
	case is == nil:
		return wider
	}
	return other
}

// identical: a value that may hold references means the same only if what they
// point to does, and that can be anywhere in the document.
func (w *walker) identical(keyword string, was, is any) bool {
	if !reflect.DeepEqual(was, is) {
		return false
	}
	return plain(was) && keyword != "$ref" && keyword != "$dynamicRef" || reflect.DeepEqual(w.old, w.new)
}

func (w *walker) bound(at, keyword string, was, is any, larger bool) {
	how := constraint(was, is)
	if was != nil && is != nil {
		a, okA := number(was)
		b, okB := number(is)
		switch {
		case !okA || !okB:
			if reflect.DeepEqual(was, is) {
				return
			}
		case a.Cmp(b) == 0:
			return
		case (b.Cmp(a) > 0) == larger:
			how = wider
		default:
			how = narrower
		}
	}
	w.add(at, keyword, was, is, how)
}

// values compares which types and which listed values fit.
func (w *walker) values(at string, o, n map[string]any) {
	listOld, listedOld := listed(o)
	listNew, listedNew := listed(n)
	switch {
	case listedOld && listedNew:
		w.add(at, "enum", listOld, listNew, sets(texts(listOld), texts(listNew)))
	case listedOld:
		w.add(at, "enum", listOld, nil, wider)
	case listedNew:
		w.add(at, "enum", nil, listNew, narrower)
	}
	a, b := types(o), types(n)
	w.add(at, "type", a, b, sets(a, b))
}

func (w *walker) properties(at string, o, n map[string]any) {
	w.additional(at, o["additionalProperties"], n["additionalProperties"])
	was, _ := o["properties"].(map[string]any)
	is, _ := n["properties"].(map[string]any)
	neededOld, neededNew := names(o["required"]), names(n["required"])
	all := slices.Concat(keywords(was, is), neededOld, neededNew)
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		here := at + "/" + escape(name)
		a, had := was[name]
		b, has := is[name]
		needed, needs := slices.Contains(neededOld, name), slices.Contains(neededNew, name)
		switch {
		case had && has:
			w.node(here, a, b)
			w.needed(here, needed, needs)
		case had && w.output:
			w.add(here, property, "there", "", wider) // readers are promised less
		case has && w.output:
			w.add(here, property, "", "there", narrower) // see doc.go
		case had:
			w.add(here, property, "there", "", either(anything(n["additionalProperties"]), wider, narrower))
			w.needed(here, false, needs)
		case needs || needed:
			w.needed(here, needed, needs)
		case has:
			// An open object took anything under this name before.
			w.add(here, property, "", "there", either(o["additionalProperties"] == false, wider, narrower))
		}
	}
}

func (w *walker) additional(at string, was, is any) {
	_, schemaOld := was.(map[string]any)
	_, schemaNew := is.(map[string]any)
	switch {
	case schemaOld && schemaNew:
		w.node(at+"/*", was, is)
	case reflect.DeepEqual(was, is) || anything(was) && anything(is):
	case anything(was) || is == false:
		w.add(at, "additionalProperties", was, is, narrower)
	default:
		w.add(at, "additionalProperties", was, is, wider)
	}
}

// anything: an object that says nothing about other properties takes them.
func anything(additional any) bool { return additional == nil || additional == true }

func (w *walker) needed(at string, was, is bool) {
	switch {
	case is && !was:
		w.add(at, required, "", "required", narrower)
	case was && !is:
		w.add(at, required, "required", "", wider)
	}
}

// defaults: to leave a value out is a value, too. One that is stated where none
// was only says what happened anyway.
func (w *walker) defaults(at string, o, n map[string]any) {
	was, had := o[defaults]
	is, has := n[defaults]
	switch {
	case w.output || !had && !has || reflect.DeepEqual(was, is):
	case had:
		w.add(at, defaults, was, is, other)
	default:
		w.add(at, annotation, nil, nil, wider)
	}
}

// branches compares alternatives. Each one must find one that contains it on
// the other side.
func (w *walker) branches(at string, o, n map[string]any) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		a, _ := o[keyword].([]any)
		b, _ := n[keyword].([]any)
		if a == nil && b == nil {
			continue
		}
		how := constraint(o[keyword], n[keyword])
		switch {
		case a == nil || b == nil:
		case keyword == "anyOf":
			how = same
			if !w.covered(a, b, narrower) {
				how |= narrower
			}
			if !w.covered(b, a, wider) {
				how |= wider
			}
		case w.identical(keyword, a, b):
			continue
		}
		w.add(at, keyword, o[keyword], n[keyword], how)
	}
}

// covered reports whether each of these has one among those that it doesn't
// exceed. Exceeding is narrower when these are the old ones, wider else.
func (w *walker) covered(these, those []any, exceeding way) bool {
	for _, a := range these {
		if !slices.ContainsFunc(those, func(b any) bool {
			one := walker{old: w.old, new: w.new, met: maps.Clone(w.met)}
			if exceeding == narrower {
				one.node("", a, b)
			} else {
				one.node("", b, a)
			}
			return !slices.ContainsFunc(one.changes, func(c change) bool { return c.keyword != annotation && c.way&exceeding != 0 })
		}) {
			return false
		}
	}
	return true
}
