package credentials

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

const (
	maxToken = 16 << 10
	// A longer lifetime is a mistake of the server; such a token is treated as
	// one of unknown lifetime.
	maxLifetime = 10 * 365 * 24 * time.Hour
)

// A grant is what a token endpoint gave.
type grant struct {
	access, refresh Secret // refresh is empty when the answer had none
	lifetime        time.Duration
	scopes          []string
	hasScopes       bool
}

// A tokenAnswer is a token endpoint's document: a grant, or its error code.
type tokenAnswer struct {
	grant       *grant
	error       string
	description string // for comparing with aliases; never shown or kept
}

// parseTokenAnswer reads a token endpoint's body. ok is false when it is
// neither a grant nor an error that can be relied on.
//
// It is strict about what makes a token usable and about ambiguity (a repeated
// name, a name in another case), and forgiving about every optional field: an
// odd expires_in must not cost the refresh token beside it, because the old one
// may be spent already.
func parseTokenAnswer(p *Provider, body []byte) (tokenAnswer, bool) {
	doc, err := connector.DecodeJSON[map[string]json.RawMessage](connector.Response{Body: body})
	if err != nil || doc == nil {
		return tokenAnswer{}, false
	}
	access, hasAccess := jsonText(doc["access_token"])
	if code, ok := jsonText(doc["error"]); ok && code != "" {
		description, _ := jsonText(doc["error_description"])
		// Both at once is neither.
		return tokenAnswer{error: code, description: description}, access == ""
	}
	if !hasAccess || !validToken(access) {
		return tokenAnswer{}, false
	}
	// RFC 6749 section 7.1: a client must not use a token of a type that it
	// does not understand. Servers that leave the type out mean Bearer.
	if kind, _ := jsonText(doc["token_type"]); kind != "" && !strings.EqualFold(kind, "bearer") {
		return tokenAnswer{}, false
	}
	g := &grant{access: NewSecret(access), lifetime: lifetime(doc["expires_in"])}
	switch refresh, ok := jsonText(doc["refresh_token"]); {
	case ok && refresh != "":
		if !validToken(refresh) {
			return tokenAnswer{}, false
		}
		g.refresh = NewSecret(refresh)
	case !ok && !absent(doc["refresh_token"]):
		return tokenAnswer{}, false
	}
	g.scopes, g.hasScopes = scopeList(p, doc["scope"])
	return tokenAnswer{grant: g}, true
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func jsonText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// validToken stops header injection: a token is visible ASCII (RFC 6749
// appendix A.12, without the space that no bearer token has).
func validToken(s string) bool {
	if s == "" || len(s) > maxToken {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// lifetime reads expires_in, which servers send as a number, as text, as a
// fraction, or not at all. Whatever is no sensible duration is zero: unknown.
func lifetime(raw json.RawMessage) time.Duration {
	text := string(raw)
	if s, ok := jsonText(raw); ok {
		text = strings.TrimSpace(s)
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(seconds) || seconds < 1 || seconds > maxLifetime.Seconds() {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// scopeList reads a scope member: one text, or, against RFC 6749, a list.
func scopeList(p *Provider, raw json.RawMessage) ([]string, bool) {
	if text, ok := jsonText(raw); ok {
		return p.splitScopes(text), true
	}
	var list []string
	if absent(raw) || json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	var out []string
	for _, s := range list {
		if validScope(s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out, true
}
