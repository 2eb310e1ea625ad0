package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/textproto"
	"net/url"
	"time"
)

// Verified is what is known of a delivery whose signature is right.
type Verified struct {
	DeliveryID  string // empty: this scheme's body has none
	IDSigned    bool   // false: anyone who saw the delivery can repeat it under another id
	EventType   string // empty: it says none
	SignedAt    time.Time
	SecretIndex int    // of the secrets that were given
	Payload     []byte // the JSON document, also of a form; the wire form where a form is all there is
}

// Verify checks one delivery: the headers, the exact body that was received, and
// the time of receipt. Secrets are tried all; those that are not valid at that
// time don't count. The error is always a Reason. It keeps nothing and is safe
// for concurrent use.
func Verify(s Scheme, secrets []Secret, h http.Header, body []byte, now time.Time) (Verified, error) {
	v := Verified{IDSigned: s.IDSigned, SecretIndex: -1}
	form, ok := s.media(h.Get("Content-Type"))
	if !ok || len(h.Values("Content-Type")) != 1 {
		return v, WrongContentType
	}
	given, err := one(h, s.header, true)
	if err != nil {
		return v, err
	}
	at, err := one(h, s.timed, s.timed != "")
	if err != nil {
		return v, err
	}
	id, err := one(h, s.IDHeader, s.IDHeader != "")
	if err != nil {
		return v, err
	}
	event, err := one(h, s.EventHeader, false)
	if err != nil {
		return v, err
	}
	if s.IDHeader != "" && !s.idPattern(id) || len(event) > 128 {
		return v, MalformedHeader
	}
	signed := body
	v.Payload = body
	if form && s.form != formOpaque {
		if v.Payload, err = payload(body); err != nil {
			return v, err
		}
		if s.form == formJSON {
			signed = v.Payload
		}
	}
	candidates, wellFormed := s.read(given)
	if candidates.at != "" {
		at = candidates.at
	}
	v.SecretIndex, err = match(s, secrets, candidates, wellFormed, s.content(id, at, signed), now)
	if err != nil {
		return v, err
	}
	// From here on the bytes are the sender's.
	if v.SignedAt, err = s.time(at, v.Payload, now); err != nil {
		return v, err
	}
	v.DeliveryID, v.EventType = id, event
	if s.bodyID != "" || s.bodyEvent != "" {
		members := top(v.Payload, s.bodyID, s.bodyEvent)
		if s.bodyID != "" && s.idPattern(members[s.bodyID]) {
			v.DeliveryID = members[s.bodyID]
		}
		if s.EventHeader == "" && len(members[s.bodyEvent]) <= 128 {
			v.EventType = members[s.bodyEvent]
		}
	}
	return v, nil
}

// one reads a header that may come once. Two of them would let one part of a
// system look at the first and another at the last.
func one(h http.Header, name string, required bool) (string, error) {
	if name == "" {
		return "", nil
	}
	values := h[textproto.CanonicalMIMEHeaderKey(name)]
	switch {
	case len(values) > 1:
		return "", AmbiguousHeader
	case len(values) == 0 && required:
		return "", MissingHeader
	case len(values) == 0:
		return "", nil
	}
	return values[0], nil
}

// match tries every secret against every candidate and returns which one fits.
func match(s Scheme, secrets []Secret, c signatures, wellFormed bool, content [][]byte, now time.Time) (int, error) {
	found, usable := -1, 0
	for i, secret := range secrets {
		k, err := s.codec(secret.Text)
		if err != nil || !secret.valid(now) {
			continue
		}
		usable++
		if wellFormed && fits(k, c, content) && found < 0 {
			found = i
		}
	}
	switch {
	case usable == 0:
		return -1, NoUsableSecret
	case !wellFormed:
		return -1, MalformedSig
	case found < 0:
		return -1, WrongSignature
	}
	return found, nil
}

func fits(k key, c signatures, content [][]byte) bool {
	right := 0
	switch {
	case k.mac != nil:
		sum := mac(k.mac, content)
		for _, candidate := range c.macs {
			right |= subtle.ConstantTimeCompare(sum, candidate)
		}
	case k.token != nil && c.token != nil:
		// Digests have one length, so the comparison tells nothing about it.
		want, got := sha256.Sum256(k.token), sha256.Sum256(c.token)
		right = subtle.ConstantTimeCompare(want[:], got[:])
	case k.public != nil && len(c.edward) > 0:
		message := bytes.Join(content, nil)
		for _, candidate := range c.edward {
			if ed25519.Verify(k.public, message, candidate) {
				right = 1
			}
		}
	}
	return right == 1
}

func mac(key []byte, content [][]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, part := range content {
		m.Write(part)
	}
	return m.Sum(nil)
}

// time judges the signed time, where the scheme has one.
func (s Scheme) time(at string, body []byte, now time.Time) (t time.Time, err error) {
	ok := true
	switch {
	case s.unit != nil:
		t, ok = s.unit(at)
	case s.bodyTime != nil:
		t, ok = s.bodyTime(body)
	default:
		return time.Time{}, nil
	}
	switch {
	case !ok:
		return time.Time{}, MissingTime
	case now.Sub(t) > maxPast:
		return time.Time{}, TooOld
	case t.Sub(now) > maxFuture:
		return time.Time{}, TooNew
	}
	return t, nil
}

// payload unwraps the one field of a form.
func payload(body []byte) ([]byte, error) {
	fields, err := url.ParseQuery(string(body))
	if err != nil || len(fields["payload"]) != 1 {
		return nil, MalformedForm
	}
	return []byte(fields["payload"][0]), nil
}

// top reads text members of a document's top level. A body that is not such a
// document has none; the decoder behind the inbox says what is wrong with it.
func top(body []byte, names ...string) map[string]string {
	var doc map[string]json.RawMessage
	found := map[string]string{}
	if json.Unmarshal(body, &doc) != nil {
		return found
	}
	for _, name := range names {
		var text string
		if raw, ok := doc[name]; ok && json.Unmarshal(raw, &text) == nil {
			found[name] = text
		}
	}
	return found
}
