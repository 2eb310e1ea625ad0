package edge

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: MCP2, CRE10
func TestTokens(t *testing.T) {
	i := newIssuer(t)
	d := jwtDoor(t, i, func(c *Config) { c.Effect = effects })
	stranger, _ := rsa.GenerateKey(rand.Reader, 2048)
	public, _ := x509.MarshalPKIXPublicKey(&signingKey().PublicKey)
	hs256 := func() string {
		h, p := b64([]byte(`{"alg":"HS256","kid":"k1"}`)), ""
		raw, _ := json.Marshal(i.claims())
		p = b64(raw)
		m := hmac.New(sha256.New, public)
		m.Write([]byte(h + "." + p))
		return h + "." + p + "." + b64(m.Sum(nil))
	}
	none := func() string {
		raw, _ := json.Marshal(i.claims())
		return b64([]byte(`{"alg":"none"}`)) + "." + b64(raw) + "."
	}
	head := map[string]any{"alg": "RS256", "kid": "k1"}
	now := time.Now().Unix()
	bad := map[string]string{
		"garbage": "abc", "three dots": "a.b.c.d", "not base64": "!!.!!.!!", "spaces": "a b",
		"other audience": i.token(claims{"aud": "https://other.example/mcp"}), "no audience": i.token(claims{"aud": nil}),
		"audience is a prefix": i.token(claims{"aud": "https://bridge.example"}), "audience of the provider": i.token(claims{"aud": "sandbox"}),
		"other issuer": i.token(claims{"iss": "https://evil.example"}), "issuer with a slash": i.token(claims{"iss": i.URL + "/"}),
		"expired": i.token(claims{"exp": now - 60}), "no expiry": i.token(claims{"exp": nil}), "not yet": i.token(claims{"nbf": now + 3600}),
		"no tenant": i.token(claims{"tenant": nil}), "foreign tenant": i.token(claims{"tenant": "evil"}), "tenant is no text": i.token(claims{"tenant": []string{"acme"}}),
		"only other cases of the names": i.token(claims{"sub": nil, "SUB": "u1"}), "a greater AUD": i.token(claims{"aud": "x", "AUD": resource}),
		"no subject": i.token(claims{"sub": nil}), "alg none": none(), "HS256 with the public key": hs256(),
		"unknown key": sign(map[string]any{"alg": "RS256", "kid": "k9"}, i.claims(), stranger), "known kid, other key": sign(head, i.claims(), stranger),
		"a provider's token": "sbx_at_0123456789abcdef", "cut": i.token()[:200], "one bit": i.token()[:len(i.token())-2] + "AA",
	}
	for name, token := range bad {
		resp := d.send(ping, token)
		want := `Bearer resource_metadata="https://bridge.example/.well-known/oauth-protected-resource/mcp", scope="mcp:read", error="invalid_token"`
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != want || strings.TrimSpace(string(body)) != "unauthorized" {
			t.Errorf("%s: %d %s %q", name, resp.StatusCode, resp.Header.Get("WWW-Authenticate"), body)
		}
	}
	if resp := d.send(ping, ""); resp.StatusCode != http.StatusUnauthorized || strings.Contains(resp.Header.Get("WWW-Authenticate"), "error") {
		t.Errorf("no token: %d %s", resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
	}
	for name, change := range map[string]func(*http.Request){
		"two headers": func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+i.token()) },
		"basic":       func(r *http.Request) { r.Header.Set("Authorization", "Basic "+i.token()) },
	} {
		if resp := d.send(ping, i.token(), change); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	for name, query := range map[string]string{"in the query too": "access_token=" + i.token(), "a query that can't be read": "a=%zz&access_token=x"} {
		resp := d.send(ping, i.token(), func(r *http.Request) { r.URL.RawQuery = query })
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(resp.Header.Get("WWW-Authenticate"), `error="invalid_request"`) {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	if n := d.reached.Load(); n != 0 {
		t.Fatalf("%d requests came through", n)
	}
	for name, token := range map[string]string{
		"plain": i.token(), "audience with a slash": i.token(claims{"aud": resource + "/"}), "audience list": i.token(claims{"aud": []string{"x", resource}}),
		"clock a little behind": i.token(claims{"exp": now - 5}), "scp": i.token(claims{"scope": nil, "scp": []string{"mcp:read"}}),
	} {
		if resp := d.send(ping, token); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	want := Identity{Caller: connector.Caller{Tenant: "acme", Principal: connector.PrincipalID(i.URL + "|u1")}, Issuer: i.URL, ClientID: "agent"}
	d.send(ping, i.token())
	got := d.last.id
	got.Scopes, got.Expiry = nil, time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if d.last.head.Get("Authorization") != "" || d.last.body != ping {
		t.Errorf("behind the door: %v %q", d.last.head, d.last.body)
	}
}

// Guarantee: MCP2
func TestKeysTurnOver(t *testing.T) {
	i := newIssuer(t)
	d := jwtDoor(t, i)
	if resp := d.send(ping, i.token()); resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode)
	}
	next, _ := rsa.GenerateKey(rand.Reader, 2048)
	i.mu.Lock()
	i.keys = map[string]*rsa.PrivateKey{"k2": next}
	i.mu.Unlock()
	if resp := d.send(ping, sign(map[string]any{"alg": "RS256", "kid": "k2"}, i.claims(), next)); resp.StatusCode != 200 {
		t.Errorf("a token of the new key: %d", resp.StatusCode)
	}
	i.mu.Lock()
	i.down = true
	i.mu.Unlock()
	third, _ := rsa.GenerateKey(rand.Reader, 2048)
	resp := d.send(ping, sign(map[string]any{"alg": "RS256", "kid": "k3"}, i.claims(), third))
	if resp.StatusCode != http.StatusServiceUnavailable || d.reached.Load() != 2 {
		t.Errorf("with the keys out of reach: %d, %d came through", resp.StatusCode, d.reached.Load())
	}
}

// Tokens of keys that nobody has cost the issuer a bounded number of questions, and
// nobody else the door.
//
// Guarantee: MCP2
func TestStrangersDoNotFloodTheIssuer(t *testing.T) {
	i := newIssuer(t)
	d := jwtDoor(t, i)
	good := i.token()
	stranger := sign(map[string]any{"alg": "RS256", "kid": "made up"}, i.claims(), signingKey())
	for range 5 * keyFetches {
		if resp := d.send(ping, stranger); resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a stranger: %d", resp.StatusCode)
		}
	}
	if n := i.fetched.Load(); n > keyFetches+1 { // one may have been earned meanwhile
		t.Errorf("the keys were fetched %d times", n)
	}
	if resp := d.send(ping, good); resp.StatusCode != http.StatusOK {
		t.Errorf("a good token meanwhile: %d", resp.StatusCode)
	}
}

// Guarantee: MCP2
func TestIntrospectionFailsClosed(t *testing.T) {
	i := newIssuer(t)
	v, err := NewIntrospection(Introspection{Claims: Claims{Audience: resource, TenantClaim: "tenant"}, Issuer: i.URL, URL: i.URL + "/introspect", ClientID: "bridge", Secret: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Client.CloseIdleConnections)
	d := newDoor(t, Config{Verifier: v})
	answer := func(c claims) string { raw, _ := json.Marshal(c); return string(raw) }
	for name, c := range map[string]struct {
		answer string
		status int
	}{
		"active":          {answer(i.claims(claims{"active": true})), 200},
		"inactive":        {`{"active":false}`, 401},
		"says nothing":    {`{}`, 401},
		"other audience":  {answer(i.claims(claims{"active": true, "aud": "x"})), 401},
		"other issuer":    {answer(i.claims(claims{"active": true, "iss": "https://evil.example"})), 401},
		"expired":         {answer(i.claims(claims{"active": true, "exp": 1})), 401},
		"active as text":  {`{"active":"true"}`, 503},
		"active and not":  {answer(i.claims(claims{"active": false, "Active": true})), 401},
		"said twice":      {`{"active":false,"active":true}`, 503},
		"not JSON":        {"<html>", 503},
		"longer than cap": {`{"active":true,"x":"` + strings.Repeat("x", 70<<10) + `"}`, 503},
	} {
		i.active = func(string) string { return c.answer }
		if resp := d.send(ping, "opaque-token"); resp.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.status)
		}
	}
	i.down = true
	if resp := d.send(ping, "opaque-token"); resp.StatusCode != 503 || d.reached.Load() != 1 {
		t.Errorf("out of reach: %d, %d came through", resp.StatusCode, d.reached.Load())
	}
}

// Guarantee: MCP2
func TestAVerifierThatBreaksShutsTheDoor(t *testing.T) {
	d := newDoor(t, Config{Verifier: verifierFunc(func(string) (Identity, error) { return Identity{}, errors.New("tok-4711 at the database") })})
	resp := d.send(ping, "x")
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 503 || strings.Contains(string(body), "4711") || d.reached.Load() != 0 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	nobody := newDoor(t, Config{Verifier: verifierFunc(func(string) (Identity, error) { return Identity{}, nil })})
	if resp := nobody.send(ping, "x"); resp.StatusCode != 401 {
		t.Errorf("an identity without a tenant: %d", resp.StatusCode)
	}
}

// Guarantee: MCP2
func TestMetadata(t *testing.T) {
	e := newDoor(t, Config{Verifier: local, Issuers: []string{"https://id.example"}, Effect: effects}).edge
	if diff := cmp.Diff([]string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"}, e.MetadataPaths()); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	w := httptest.NewRecorder()
	e.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, e.MetadataURL(), nil))
	var doc map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"resource": resource, "authorization_servers": []any{"https://id.example"}, "bearer_methods_supported": []any{"header"},
		"resource_name": "Drawbridge", "scopes_supported": []any{"mcp:read", "mcp:write"}}
	if diff := cmp.Diff(want, doc); diff != "" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}
