package credentials

import (
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// A Secret is text that can be used by this package and printed by nobody: fmt
// with any verb, JSON, text and slog all write "[redacted]". The zero value is
// the empty secret. It is safe for concurrent use.
type Secret struct {
	// A function, because fmt does not call methods of unexported fields: with
	// a string here, %+v of any struct around a Secret would print it.
	text func() string
}

// NewSecret hides a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{func() string { return text }}
}

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return s.text()
}

// IsZero tells whether the secret is empty.
func (s Secret) IsZero() bool { return s.text == nil }

// String returns "[redacted]".
func (Secret) String() string { return redacted }

// GoString returns "[redacted]".
func (Secret) GoString() string { return redacted }

// Format writes "[redacted]" for every verb.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText returns "[redacted]".
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns "[redacted]".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue returns "[redacted]".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
