package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	scrubbed  = "[scrubbed]"
	operation = "[operation]"
)

// secretName matches names whose values are never kept. They are compared
// without case, dashes and underscores.
var secretName = regexp.MustCompile(`token|secret|password|passwd|apikey|authorization|credential|cookie|session|signature|assertion|codeverifier|privatekey|email|phone`)

// secretParameter are short-lived secrets of a sign-in. In a body these names
// mean something else: a ticket has a state, an error a code.
var secretParameter = []string{"code", "state", "nonce"}

var plain = strings.NewReplacer("-", "", "_", "", ".", "")

// operationID is what Drawbridge calls a write; a new one in each run.
var operationID = regexp.MustCompile(`op_[A-Za-z0-9_-]{8,}`)

// scrubber replaces what must not be kept, and learns what that is as it goes.
type scrubber struct {
	names []string // given, in plain form

	mu      sync.Mutex
	learned []string // values that were seen as credentials
}

func newScrubber(names []string) *scrubber {
	s := &scrubber{}
	for _, n := range names {
		s.names = append(s.names, plain.Replace(strings.ToLower(n)))
	}
	return s
}

func (s *scrubber) secret(name string) bool {
	name = plain.Replace(strings.ToLower(name))
	return secretName.MatchString(name) || slices.Contains(s.names, name)
}

// learn remembers a value. Short ones stay: replacing "1" everywhere would
// destroy the recording and protect nothing.
func (s *scrubber) learn(value string) {
	if len(value) < 8 || value == scrubbed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.learned, value) {
		s.learned = append(s.learned, value)
	}
}

// headers learns the credentials of a request or an answer.
func (s *scrubber) headers(h http.Header) {
	for name, values := range h {
		if !s.secret(name) {
			continue
		}
		for _, v := range values {
			s.learn(v)
			// A scheme, or a cookie's name and attributes, stand around the value.
			for _, part := range strings.FieldsFunc(v, func(c rune) bool { return c == ' ' || c == ';' || c == ',' }) {
				s.learn(part)
				if _, value, ok := strings.Cut(part, "="); ok {
					s.learn(value)
				}
				if raw, err := base64.StdEncoding.DecodeString(part); err == nil { // Basic: name and password
					_, password, _ := strings.Cut(string(raw), ":")
					s.learn(password)
				}
			}
		}
	}
}

// text replaces everything learned, and operation ids.
func (s *scrubber) text(t string) string {
	t = strings.ToValidUTF8(t, "\uFFFD")
	s.mu.Lock()
	for _, value := range s.learned {
		for _, form := range encodings(value) {
			t = strings.ReplaceAll(t, form, scrubbed)
		}
	}
	s.mu.Unlock()
	return operationID.ReplaceAllString(t, operation)
}

func (s *scrubber) query(q url.Values) string {
	kept := url.Values{}
	for name, values := range q {
		for _, v := range values {
			if s.secret(name) || slices.Contains(secretParameter, name) {
				s.learn(v)
				v = scrubbed
			}
			kept.Add(name, s.text(v))
		}
	}
	return kept.Encode()
}

// body returns what is kept of a body, and whether it is text that is no JSON.
// What is neither text nor JSON nor a form is not kept.
func (s *scrubber) body(contentType string, raw []byte) (kept json.RawMessage, isText bool) {
	if len(raw) == 0 {
		return nil, false
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var doc any
	switch {
	case d.Decode(&doc) == nil && !d.More():
		s.find(doc)
		return encode(s.json(doc, false)), false
	case kind == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(raw))
		if err == nil {
			return encode(s.query(form)), true
		}
	case strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml"):
		return encode(s.text(string(raw))), true
	}
	return encode("[not kept: " + kind + "]"), true
}

// find learns all secrets of a document before any of it is kept, because one
// may stand elsewhere in it, in front of where it is named.
func (s *scrubber) find(node any) {
	switch n := node.(type) {
	case map[string]any:
		for name, child := range n {
			if text, ok := child.(string); ok && s.secret(name) {
				s.learn(text)
			}
			s.find(child)
		}
	case []any:
		for _, child := range n {
			s.find(child)
		}
	}
}

// json scrubs a value, keeping its shape; below a secret name everything goes.
func (s *scrubber) json(node any, secret bool) any {
	switch n := node.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, child := range n {
			kept[s.text(name)] = s.json(child, secret || s.secret(name))
		}
		return kept
	case []any:
		kept := []any{}
		for _, child := range n {
			kept = append(kept, s.json(child, secret))
		}
		return kept
	case string:
		if secret {
			return scrubbed
		}
		return s.text(n)
	case json.Number:
		if secret || s.text(n.String()) != n.String() {
			return json.Number("0")
		}
	case bool:
		return n && !secret
	}
	return node
}

func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it came from JSON, or is a string
	return bytes.TrimSpace(b.Bytes())
}

// known are all values that were seen as credentials.
func (s *scrubber) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.learned)
}

// rescrub replaces in an exchange what was learned after it.
func (s *scrubber) rescrub(e Exchange) Exchange {
	e.Request.Path, e.Request.Query = s.text(e.Request.Path), s.text(e.Request.Query)
	e.Request.Body, e.Answer.Body = s.again(e.Request.Body), s.again(e.Answer.Body)
	e.Answer.Header = maps.Clone(e.Answer.Header)
	for name, v := range e.Answer.Header {
		e.Answer.Header[name] = s.text(v)
	}
	return e
}

// again scrubs a body that was kept; one without indentation comes of it.
func (s *scrubber) again(kept json.RawMessage) json.RawMessage {
	if len(kept) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(kept))
	d.UseNumber()
	var doc any
	if d.Decode(&doc) != nil {
		return nil // what can't be read can't be vouched for
	}
	return encode(s.json(doc, false))
}
