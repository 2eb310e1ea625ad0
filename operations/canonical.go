package operations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Signed statements are JSON of objects, lists and texts only. For these the
// canonical form of RFC 8785 is a page of code, and what a parser could read in
// two ways (a key twice, a lone surrogate, a number) does not exist in it.

type object map[string]any

const maxDepth = 16

var errNotText = errors.New("not JSON of objects, lists and texts")

// parseText reads one value and refuses everything else.
func parseText(raw []byte) (any, error) {
	// The decoder would replace both of these without a word.
	if !utf8.Valid(raw) || loneSurrogate(raw) {
		return nil, errNotText
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	v, err := parseValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text behind the value")
	}
	return v, nil
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, errNotText
	}
	switch t := token.(type) {
	case string:
		return t, nil
	case json.Delim:
		switch t {
		case '{':
			o := object{}
			for d.More() {
				key, err := d.Token()
				name, ok := key.(string)
				if err != nil || !ok {
					return nil, errNotText
				}
				if _, twice := o[name]; twice {
					return nil, errors.New("a key is there twice")
				}
				if o[name], err = parseValue(d, depth+1); err != nil {
					return nil, err
				}
			}
			_, err := d.Token()
			return o, err
		case '[':
			list := []any{}
			for d.More() {
				v, err := parseValue(d, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, err
		}
	}
	return nil, errNotText
}

// loneSurrogate finds \uD800 to \uDFFF that is not half of a pair.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // the escaped character, which may be a backslash
		hi, ok := escaped(raw, i)
		if !ok || !utf16.IsSurrogate(hi) {
			continue
		}
		lo, ok := escaped(raw, i+6)
		if !ok || raw[i+5] != '\\' || utf16.DecodeRune(hi, lo) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

// escaped reads uXXXX at i.
func escaped(raw []byte, i int) (rune, bool) {
	if i+5 > len(raw) || raw[i] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range raw[i+1 : i+5] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func canonicalText(raw []byte) ([]byte, error) {
	v, err := parseText(raw)
	if err != nil {
		return nil, err
	}
	return appendText(nil, v), nil
}

// appendText writes RFC 8785: no white space, keys by their UTF-16 code units,
// the shortest escapes.
func appendText(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendQuoted(b, v)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, item)
		}
		return append(b, ']')
	case object:
		b = append(b, '{')
		for i, key := range slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		}) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(append(appendQuoted(b, key), ':'), v[key])
		}
		return append(b, '}')
	}
	panic("not a value of parseText")
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\t':
			b = append(b, `\t`...)
		case '\n':
			b = append(b, `\n`...)
		case '\f':
			b = append(b, `\f`...)
		case '\r':
			b = append(b, `\r`...)
		default:
			if c < 0x20 {
				b = fmt.Appendf(b, `\u%04x`, c)
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}
