package operations

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Field is one value of what will be sent, in the order of the stored bytes.
type Field struct {
	Name  Text   `json:"name"` // RFC 6901 pointer in JSON, the key elsewhere; empty: the whole body
	Kind  string `json:"kind"` // string, number, boolean, null, object, array (the last two only when empty), text
	Value Text   `json:"value"`
}

// bodyFields takes a body apart for reading, and nothing of it away: a body that
// isn't exactly one JSON document or one form is shown as it is.
func bodyFields(contentType string, body []byte) []Field {
	if len(body) == 0 {
		return nil
	}
	if media, _, err := mime.ParseMediaType(contentType); err == nil && media == "application/x-www-form-urlencoded" {
		if fields, ok := formFields(string(body)); ok {
			return fields
		}
	} else if fields, ok := jsonFields(body); ok {
		return fields
	}
	return []Field{{Kind: "text", Value: Visible(string(body))}}
}

// container is one open object or array on the way to a value.
type container struct {
	prefix string
	array  bool
	n      int    // members seen
	key    string // the member that comes next
	keyed  bool   // key was read
}

// jsonFields lists the leaves of a JSON document with their pointers. It works
// on tokens, because a decoded map would lose the order and hide a name that
// comes twice.
func jsonFields(body []byte) ([]Field, bool) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var fields []Field
	var open []container
	pointer := func() string {
		if len(open) == 0 {
			return ""
		}
		c := &open[len(open)-1]
		if c.array {
			return c.prefix + "/" + strconv.Itoa(c.n)
		}
		return c.prefix + "/" + c.key
	}
	end := func() {
		if len(open) > 0 {
			c := &open[len(open)-1]
			c.n, c.keyed = c.n+1, false
		}
	}
	for {
		before := dec.InputOffset()
		token, err := dec.Token()
		if err == io.EOF {
			return fields, len(open) == 0
		}
		if err != nil {
			return nil, false
		}
		literal := strings.TrimLeft(string(body[before:dec.InputOffset()]), " \t\r\n,:")
		if s, ok := token.(string); ok && len(open) > 0 && !open[len(open)-1].array && !open[len(open)-1].keyed {
			c := &open[len(open)-1]
			c.key, c.keyed = pointerToken(s), true
			if strings.ContainsRune(s, utf8.RuneError) {
				c.key = pointerToken(literal)
			}
			continue
		}
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				open = append(open, container{prefix: pointer(), array: t == '['})
				continue
			}
			c := open[len(open)-1]
			open = open[:len(open)-1]
			if c.n == 0 {
				kind, text := "object", "{}"
				if c.array {
					kind, text = "array", "[]"
				}
				fields = append(fields, Field{Visible(c.prefix), kind, Visible(text)})
			}
		case string:
			value := Visible(t)
			if strings.ContainsRune(t, utf8.RuneError) {
				// The decoder puts this character in place of a lone
				// surrogate; the literal says which of the two it is.
				value.Escaped = Visible(literal).Shown
				value.Hidden = max(value.Hidden, 1)
			}
			fields = append(fields, Field{Visible(pointer()), "string", value})
		case json.Number:
			fields = append(fields, Field{Visible(pointer()), "number", Visible(literal)})
		case bool:
			fields = append(fields, Field{Visible(pointer()), "boolean", Visible(literal)})
		case nil:
			fields = append(fields, Field{Visible(pointer()), "null", Visible(literal)})
		}
		end()
	}
}

func pointerToken(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// formFields splits a form without sorting or merging its pairs.
func formFields(body string) ([]Field, bool) {
	var fields []Field
	for pair := range strings.SplitSeq(body, "&") {
		key, value, _ := strings.Cut(pair, "=")
		k, err := url.QueryUnescape(key)
		if err != nil {
			return nil, false
		}
		v, err := url.QueryUnescape(value)
		if err != nil {
			return nil, false
		}
		fields = append(fields, Field{Visible(k), "string", Visible(v)})
	}
	return fields, true
}

// queryFields lists a query in the order in which it is sent.
func queryFields(q url.Values) []Field {
	var fields []Field
	for _, key := range slices.Sorted(maps.Keys(q)) {
		for _, value := range q[key] {
			fields = append(fields, Field{Visible(key), "string", Visible(value)})
		}
	}
	return fields
}
