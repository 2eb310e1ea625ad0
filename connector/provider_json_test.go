package connector_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: NET8, RUN5
func TestProviderDocumentThatIsNotExactIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		ok         bool
	}{
		{"exact", `{"id":"a","title":"b"}`, true},
		{"unknown name", `{"id":"a","title":"b","new":{"x":[1]}}`, true},
		{"white space around", " {\"id\":\"a\"}\n", true},
		{"NUL in a string, escaped", `{"id":"a\u0000"}`, true},
		{"name twice", `{"id":"a","id":"b"}`, false},
		{"name twice, escaped", `{"id":"a","\u0069d":"b"}`, false},
		{"unknown name twice", `{"id":"a","x":1,"x":2}`, false},
		{"trailing document", `{"id":"a"}{}`, false},
		{"trailing text", `{"id":"a"} ok`, false},
		{"trailing NUL", "{\"id\":\"a\"}\x00", false},
		{"NUL in a string, raw", "{\"id\":\"a\x00\"}", false},
		{"lone surrogate", `{"id":"\ud800"}`, false},
		{"invalid UTF-8", "{\"id\":\"\xff\"}", false},
		{"cut off", `{"id":"a"`, false},
		{"nothing", ``, false},
		{"HTML", `<html>`, false},
		{"other type", `{"id":5}`, false},
		{"list", `[]`, false},
		{"byte order mark", "\ufeff{\"id\":\"a\"}", false},
	} {
		n, err := connector.DecodeJSON[note](connector.Response{Body: []byte(c.body)})
		if (err == nil) != c.ok || !c.ok && connector.CodeOf(err) != connector.CodeProviderContract {
			t.Errorf("%s: %+v, %v; want accepted %t", c.name, n, err, c.ok)
		}
	}
	// Go's own decoder would take the second for the first.
	n, err := connector.DecodeJSON[note](connector.Response{Body: []byte(`{"id":"a","ID":"b"}`)})
	if err == nil && n.ID != "a" {
		t.Errorf("a name in another case overwrote id: %+v", n)
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a"}`, `{"id":"a","id":"b"}`, `{"id":"a","ID":"b"}`, `{"id":"a"}{}`, `{"id":"\ud800"}`, "{\"id\":\"\x00\"}",
		`{"title":"\ud83d\ude00"}`, ``, `null`, `[]`, `{"id":1e400}`, "{\"id\":\"\xc3\x28\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		n, err := connector.DecodeJSON[note](connector.Response{Body: body})
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			if connector.CodeOf(err) != connector.CodeProviderContract {
				t.Fatalf("%q ended as %v", body, err)
			}
			return
		}
		// What is accepted means one thing: the plain decoder agrees on exact
		// names, and the text is UTF-8.
		var plain map[string]json.RawMessage
		if err := json.Unmarshal(body, &plain); err != nil {
			t.Fatalf("accepted %q, which encoding/json refuses: %v", body, err)
		}
		var id string
		if raw, ok := plain["id"]; ok {
			if err := json.Unmarshal(raw, &id); err != nil {
				t.Fatalf("accepted %q, whose id is no string: %v", body, err)
			}
		}
		if id != n.ID || !utf8.ValidString(n.Title) {
			t.Fatalf("%q was read as %+v", body, n)
		}
	})
}
