package edge

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// maxToken is more than any token that fits into a request's header.
const maxToken = 16 << 10

// authenticate wants one bearer token, in the header alone (RFC 6750 section 2.1). In
// an address it would lie in logs, and go on to what stands behind.
func (e *Edge) authenticate(w http.ResponseWriter, r *http.Request) (Identity, bool) {
	if q, err := url.ParseQuery(r.URL.RawQuery); err != nil || q.Has("access_token") {
		e.challenge(w, http.StatusBadRequest, "invalid_request", "")
		return Identity{}, false
	}
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		e.challenge(w, http.StatusUnauthorized, "", "")
		return Identity{}, false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if len(given) > 1 || !strings.EqualFold(scheme, "Bearer") || !tokenText(token) {
		e.challenge(w, http.StatusUnauthorized, "invalid_token", "")
		return Identity{}, false
	}
	id, err := e.Verifier.Verify(r.Context(), token)
	switch {
	case errors.Is(err, ErrToken) || err == nil && (id.Caller.Tenant == "" || id.Caller.Principal == ""):
		e.challenge(w, http.StatusUnauthorized, "invalid_token", "")
		return Identity{}, false
	case err != nil:
		// Who can't be known stays outside.
		e.Logger.Error("tokens can't be verified", "err", err)
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "tokens can't be verified now")
		return Identity{}, false
	}
	return id, true
}

// tokenText is b64token of RFC 6750 section 2.1.
func tokenText(s string) bool {
	s = strings.TrimRight(s, "=")
	if s == "" || len(s) > maxToken {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/", r))
	})
}

// challenge is WWW-Authenticate (RFC 6750 section 3, RFC 9728 section 5.1). Without a
// token there is no error code: nothing was wrong yet.
func (e *Edge) challenge(w http.ResponseWriter, status int, code, scope string) {
	parts := []string{`resource_metadata="` + e.MetadataURL() + `"`}
	if scope == "" && e.Effect != nil {
		scope = e.ReadScope
	}
	if scope != "" {
		parts = append(parts, `scope="`+scope+`"`)
	}
	if code != "" {
		parts = append(parts, `error="`+code+`"`)
	}
	w.Header().Set("WWW-Authenticate", "Bearer "+strings.Join(parts, ", "))
	refuse(w, status, strings.ToLower(http.StatusText(status)))
}

const wellKnown = "/.well-known/oauth-protected-resource"

// MetadataURL is where a client finds out about us (RFC 9728 section 3.1).
func (e *Edge) MetadataURL() string {
	u := url.URL{Scheme: e.resource.Scheme, Host: e.resource.Host, Path: wellKnown + strings.TrimSuffix(e.resource.Path, "/")}
	return u.String()
}

// MetadataPaths are where Metadata is to be mounted: for our own path, and at the root
// for clients that look there.
func (e *Edge) MetadataPaths() []string {
	if p := strings.TrimSuffix(e.resource.Path, "/"); p != "" {
		return []string{wellKnown + p, wellKnown}
	}
	return []string{wellKnown}
}

// Metadata serves the protected resource metadata to everybody.
func (e *Edge) Metadata() http.Handler {
	doc := map[string]any{"resource": e.Resource, "bearer_methods_supported": []string{"header"}, "resource_name": "Drawbridge"}
	if len(e.Issuers) > 0 {
		doc["authorization_servers"] = e.Issuers
	}
	if e.Effect != nil {
		doc["scopes_supported"] = []string{e.ReadScope, e.WriteScope}
	}
	raw, _ := json.Marshal(doc) // texts and lists of them
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*") // it is public
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "max-age=300")
			_, _ = w.Write(raw)
		case http.MethodOptions:
			w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
			w.Header().Set("Access-Control-Allow-Headers", "*")
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("Allow", "GET, HEAD, OPTIONS")
			refuse(w, http.StatusMethodNotAllowed, "only to be read")
		}
	})
}

// Static is one token of one caller: for the person of a local installation, whose
// clients read it from a file that only they can read.
func Static(token string, id Identity) Verifier { return static{sha256.Sum256([]byte(token)), id} }

type static struct {
	hash [sha256.Size]byte
	id   Identity
}

func (s static) Verify(_ context.Context, token string) (Identity, error) {
	hash := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(hash[:], s.hash[:]) != 1 {
		return Identity{}, ErrToken
	}
	return s.id, nil
}
