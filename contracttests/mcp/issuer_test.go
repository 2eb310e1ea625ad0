package mcp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// issuer is the authorization server of the first hop: code with PKCE (S256) for one
// public client that is registered, tokens for one resource (RFC 8707, RFC 9068). The
// person is signed in and agrees to everything.
type issuer struct {
	*httptest.Server
	key      *ecdsa.PrivateKey
	resource string
	redirect string // the client's

	mu     sync.Mutex
	codes  map[string]url.Values // what was asked for with it
	tokens []string              // every one that was given out
	asked  []string              // the scopes of each authorization request
}

const clientID = "official-client"

var encode = base64.RawURLEncoding.EncodeToString

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key, redirect: "http://127.0.0.1:1/callback", codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	metadata := map[string]any{"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code"}, "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"}, "authorization_response_iss_parameter_supported": true,
		"scopes_supported": []string{"mcp:read", "mcp:write", "offline_access"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"}}
	public, err := key.PublicKey.Bytes() // 0x04, x, y
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]any{"keys": []any{map[string]string{"kty": "EC", "crv": "P-256", "kid": "1", "alg": "ES256", "use": "sig", "x": encode(public[1:33]), "y": encode(public[33:])}}}
	for path, doc := range map[string]any{"/.well-known/oauth-authorization-server": metadata, "/.well-known/openid-configuration": metadata, "/keys": keys} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, doc) })
	}
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	return i
}

func answer(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != clientID || q.Get("redirect_uri") != i.redirect || q.Get("response_type") != "code" ||
		q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || !slices.Equal(q["resource"], []string{i.resource}) {
		http.Error(w, "refused: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = q
	i.asked = append(i.asked, q.Get("scope"))
	i.mu.Unlock()
	back := url.Values{"code": {code}, "iss": {i.URL}}
	if q.Has("state") {
		back.Set("state", q.Get("state"))
	}
	http.Redirect(w, r, i.redirect+"?"+back.Encode(), http.StatusFound)
}

func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	asked := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	verifier := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if asked == nil || r.PostFormValue("client_id") != clientID || r.PostFormValue("redirect_uri") != i.redirect ||
		encode(verifier[:]) != asked.Get("code_challenge") || !slices.Equal(r.PostForm["resource"], []string{i.resource}) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	token := i.sign(asked.Get("scope"))
	answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 600, "scope": asked.Get("scope")})
}

// issue gives out a token without a browser.
func (i *issuer) issue(scope string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(scope)
}

// sign is called with mu held.
func (i *issuer) sign(scope string) string {
	head, _ := json.Marshal(map[string]string{"alg": "ES256", "kid": "1", "typ": "at+jwt"})
	body, _ := json.Marshal(map[string]any{"iss": i.URL, "sub": string(alice.Principal), "aud": i.resource, "exp": time.Now().Add(10 * time.Minute).Unix(),
		"iat": time.Now().Unix(), "client_id": clientID, "tenant": string(alice.Tenant), "scope": scope, "jti": rand.Text()})
	input := encode(head) + "." + encode(body)
	digest := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	if err != nil {
		panic(err)
	}
	token := input + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	i.tokens = append(i.tokens, token)
	return token
}

// given is every token that was given out.
func (i *issuer) given() (tokens, scopes []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.tokens), slices.Clone(i.asked)
}
