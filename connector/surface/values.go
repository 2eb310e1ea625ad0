package surface

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// resolve follows references inside a document; the name of the last one comes
// with what it points to. Other references are left as they are.
func resolve(doc, node any) (any, string) {
	name := ""
	for range 32 {
		n, ok := node.(map[string]any)
		ref, isRef := n["$ref"].(string)
		local, inDefs := strings.CutPrefix(ref, "#/$defs/")
		if !ok || !isRef || !inDefs || len(n) > 1 {
			break
		}
		target, ok := defs(doc)[unescaper.Replace(local)]
		if !ok {
			break
		}
		node, name = target, ref
	}
	return node, name
}

func defs(doc any) map[string]any {
	n, _ := doc.(map[string]any)
	d, _ := n["$defs"].(map[string]any)
	return d
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// escape writes one token of a JSON pointer (RFC 6901 section 3).
func escape(token string) string { return escaper.Replace(token) }

// listed are the values that enum or const allow.
func listed(n map[string]any) ([]any, bool) {
	if value, ok := n["const"]; ok {
		return []any{value}, true
	}
	list, ok := n["enum"].([]any)
	return list, ok
}

// types are the names of what fits, sorted. Integers are numbers. Without a type
// the listed values say it, and without those everything fits.
func types(n map[string]any) []string {
	all := names(n["type"])
	if one, ok := n["type"].(string); ok {
		all = []string{one}
	}
	if values, ok := listed(n); ok && all == nil {
		for _, v := range values {
			all = append(all, typeOf(v))
		}
	} else if all == nil {
		all = []string{"array", "boolean", "null", "number", "object", "string"}
	}
	if slices.Contains(all, "number") {
		all = append(slices.Clone(all), "integer")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}

// sets compares what two lists contain.
func sets(was, is []string) way {
	how := same
	if len(missing(was, is)) > 0 {
		how |= narrower
	}
	if len(missing(is, was)) > 0 {
		how |= wider
	}
	return how
}

func names(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func texts(values []any) (all []string) {
	for _, v := range values {
		all = append(all, jsonText(v))
	}
	return all
}

// show writes a value for people.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return v
	}
	return jsonText(v)
}

func jsonText(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it was read from JSON
	return strings.TrimSpace(b.String())
}

// number reads a bound without rounding it to a float64.
func number(v any) (*big.Float, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	f, _, err := big.ParseFloat(n.String(), 10, 256, big.ToNearestEven)
	return f, err == nil
}

// plain values hold no schema.
func plain(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func keywords(a, b map[string]any) []string {
	both := map[string]any{}
	maps.Copy(both, a)
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}

func only(n map[string]any, keys []string) map[string]any {
	kept := map[string]any{}
	for _, k := range keys {
		if v, ok := n[k]; ok {
			kept[k] = v
		}
	}
	return kept
}

func either(condition bool, yes, no way) way {
	if condition {
		return yes
	}
	return no
}
