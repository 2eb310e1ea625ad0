package tickets

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Ticket in the normal model.
type Ticket struct {
	ID      string `json:"id"`      // opaque; unique at the provider
	Project string `json:"project"` // the resource that grants name
	Title   string `json:"title"`
	Body    string `json:"body"`
	State   string `json:"state"`  // open or closed
	Status  string `json:"status"` // the provider's own word for it
	// Severity is low, medium, high or critical; SeverityAs the provider's word.
	Severity   Optional[string] `json:"severity,omitzero"`
	SeverityAs Optional[string] `json:"severity_as,omitzero"`
	Labels     []string         `json:"labels"`
	Evidence   []string         `json:"evidence"`
	Author     Optional[string] `json:"author,omitzero"` // a login; no address, no number
	Archived   Optional[bool]   `json:"archived,omitzero"`
	CreatedAt  time.Time        `json:"created_at"`
	UpdatedAt  time.Time        `json:"updated_at"`
	Version    string           `json:"version"` // the provider's, opaque
	// Removed counts invisible characters that were taken out of the text.
	Removed int `json:"removed_characters,omitzero"`
	// These say that the text was longer than this tool returns.
	TitleTruncated bool `json:"title_truncated,omitzero"`
	Truncated      bool `json:"body_truncated,omitzero"`
}

// Severities are the normal words, least first.
var Severities = []string{"low", "medium", "high", "critical"}

// A Draft is what tickets.create is asked to make.
type Draft struct {
	Project  string   `json:"project"`
	Title    string   `json:"title"`
	Body     string   `json:"body"`
	Severity string   `json:"severity"`
	Labels   []string `json:"labels,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
}

// Optional tells apart a field the provider did not mention (the zero value), a
// field it said is null, and a value.
type Optional[T any] struct {
	known bool
	value *T
}

// Some is a value; Null is a known absence.
func Some[T any](v T) Optional[T] { return Optional[T]{true, &v} }

// Null is what the provider says has no value.
func Null[T any]() Optional[T] { return Optional[T]{known: true} }

// Of is Null for a nil pointer and Some for any other: for fields that the
// provider always mentions.
func Of[T any](p *T) Optional[T] { return Optional[T]{true, p} }

// Get returns the value, and whether there is one.
func (o Optional[T]) Get() (v T, ok bool) {
	if o.value == nil {
		return v, false
	}
	return *o.value, true
}

// IsZero reports whether the provider did not mention the field.
func (o Optional[T]) IsZero() bool { return !o.known }

// MarshalJSON writes null or the value. A field that was not mentioned is left
// out by omitzero.
func (o Optional[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.value) }

// MarshalJSONTo is MarshalJSON without a detour: results have many of these.
func (o Optional[T]) MarshalJSONTo(e *jsontext.Encoder) error { return json.MarshalEncode(e, o.value) }

// UnmarshalJSON reads null or a value.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	o.known = true
	return json.Unmarshal(b, &o.value)
}

const (
	maxTitle = 1000
	maxBody  = 64 << 10
)

// Normalise makes a mapped ticket safe to hand on. Every driver's ticket goes
// through it, and all text fields through the same path.
func (t *Ticket) normalise() {
	clean := func(s string) string {
		out, n := visible(s)
		t.Removed += n
		return out
	}
	t.Title, t.Body, t.Status = clean(t.Title), clean(t.Body), clean(t.Status)
	if as, ok := t.SeverityAs.Get(); ok {
		t.SeverityAs = Some(clean(as))
	}
	if author, ok := t.Author.Get(); ok {
		t.Author = Some(clean(author))
	}
	labels := make([]string, len(t.Labels))
	for i, l := range t.Labels {
		labels[i] = clean(l)
	}
	evidence := make([]string, len(t.Evidence))
	for i, e := range t.Evidence {
		evidence[i] = clean(e)
	}
	t.Labels, t.Evidence = labels, evidence
	t.Title, t.TitleTruncated = cut(t.Title, maxTitle)
	t.Body, t.Truncated = cut(t.Body, maxBody)
	t.CreatedAt, t.UpdatedAt = t.CreatedAt.UTC(), t.UpdatedAt.UTC()
}

// cut shortens s to at most n bytes at a character boundary.
func cut(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, false
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], true
}

// visible takes out what a person does not see and a model reads: control
// characters (NUL, terminal escapes), Unicode tags, bidirectional overrides and
// zero-width text. Joiners stay: scripts and emoji need them.
func visible(s string) (string, int) {
	removed := 0
	out := strings.Map(func(r rune) rune {
		if hidden(r) {
			removed++
			return -1
		}
		return r
	}, s)
	return out, removed
}

func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == '\r':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
		return true
	case r == 0x200b, r >= 0x2060 && r <= 0x2064, r == 0xfeff, r == 0x00ad, r == 0x180e:
		return true
	case r >= 0xe0000 && r <= 0xe0fff, r >= 0xfff9 && r <= 0xfffb, r >= 0x206a && r <= 0x206f:
		return true
	}
	return false
}
