package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Secret is one key of an endpoint with the time in which it counts. Zero
// times are open ends. It redacts itself wherever it is formatted.
type Secret struct {
	Text      string
	NotBefore time.Time
	NotAfter  time.Time
}

func (s Secret) valid(now time.Time) bool {
	return !now.Before(s.NotBefore) && (s.NotAfter.IsZero() || now.Before(s.NotAfter))
}

const redacted = "[secret]"

// Format writes no part of the secret, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

// minSecret is how many bytes of key anyone has to guess at least.
const minSecret = 16

// A codec reads a secret's text. What is one byte off is refused: a newline or a
// prefix that is taken for a part of the key signs everything with another key.
type codec func(text string) (key, error)

// key is what a signature is checked with: one of the three.
type key struct {
	mac    []byte
	public ed25519.PublicKey
	token  []byte
}

func textCodec(text string) (key, error) {
	if err := plainText(text); err != nil {
		return key{}, err
	}
	return key{mac: []byte(text)}, nil
}

func tokenCodec(text string) (key, error) {
	if err := plainText(text); err != nil {
		return key{}, err
	}
	return key{token: []byte(text)}, nil
}

func plainText(text string) error {
	switch {
	case len(text) < minSecret:
		return fmt.Errorf("the secret has fewer than %d bytes", minSecret)
	case len(text) > 1024:
		return errors.New("the secret has more than 1024 bytes")
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("the secret has a character in it that can't be typed, such as a newline")
	case strings.TrimSpace(text) != text:
		return errors.New("the secret begins or ends with a space")
	}
	return nil
}

// standardCodec reads whsec_ and whpk_ of Standard Webhooks.
func standardCodec(text string) (key, error) {
	if rest, ok := strings.CutPrefix(text, "whpk_"); ok {
		raw, err := strictBase64(rest)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return key{}, errors.New("whpk_ must be followed by 32 bytes in padded base64")
		}
		return key{public: raw}, nil
	}
	return whsecCodec(text)
}

func whsecCodec(text string) (key, error) {
	if strings.HasPrefix(text, "whsk_") {
		return key{}, errors.New("this is the sender's private key; the receiver needs the public one (whpk_)")
	}
	rest, ok := strings.CutPrefix(text, "whsec_")
	if !ok {
		return key{}, errors.New("the secret must begin with whsec_")
	}
	raw, err := strictBase64(rest)
	switch {
	case err != nil:
		return key{}, errors.New("whsec_ must be followed by padded base64")
	case len(raw) < minSecret || len(raw) > 64:
		return key{}, fmt.Errorf("the secret has %d bytes, not %d to 64", len(raw), minSecret)
	}
	return key{mac: raw}, nil
}

// strictBase64 takes the canonical form alone: encoding/base64 skips CR and LF
// and by default the bits behind the end.
func strictBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("a line break in base64")
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}
