package edge

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const resource = "https://bridge.example/mcp"

var b64 = base64.RawURLEncoding.EncodeToString

// issuer is an authorization server with keys that turn over.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	keys   map[string]*rsa.PrivateKey
	down   bool
	active func(token string) string // introspection's answer
}

var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{keys: map[string]*rsa.PrivateKey{"k1": signingKey()}}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":"x","token_endpoint":"x","response_types_supported":[]}`, i.URL, i.URL+"/keys")
		case "/keys":
			var all []map[string]string
			for id, k := range i.keys {
				all = append(all, map[string]string{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": id,
					"n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": all})
		case "/introspect":
			if user, pass, _ := r.BasicAuth(); user != "bridge" || pass != "s3cret" {
				http.Error(w, "who", http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, i.active(r.FormValue("token")))
		}
	}))
	t.Cleanup(i.Close)
	return i
}

type claims map[string]any

func (i *issuer) claims(change ...claims) claims {
	c := claims{"iss": i.URL, "sub": "u1", "aud": resource, "exp": time.Now().Add(time.Hour).Unix(), "tenant": "acme", "scope": "mcp:read mcp:write", "client_id": "agent"}
	for _, m := range change {
		maps.Copy(c, m)
	}
	for k, v := range c {
		if v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign makes a token as RFC 7515 does.
func sign(head map[string]any, c claims, k *rsa.PrivateKey) string {
	h, _ := json.Marshal(head)
	p, _ := json.Marshal(c)
	input := b64(h) + "." + b64(p)
	sum := sha256.Sum256([]byte(input))
	sig, err := rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return input + "." + b64(sig)
}

func (i *issuer) token(change ...claims) string {
	return sign(map[string]any{"alg": "RS256", "kid": "k1", "typ": "at+jwt"}, i.claims(change...), signingKey())
}

// door is an edge with what stands behind it counted.
type door struct {
	t       testing.TB
	edge    *Edge
	reached atomic.Int64
	last    struct {
		id   Identity
		head http.Header
		body string
	}
}

func newDoor(t testing.TB, c Config) *door {
	t.Helper()
	if c.Resource == "" {
		c.Resource = resource
	}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &door{t: t, edge: e}
}

func jwtDoor(t testing.TB, i *issuer, change ...func(*Config)) *door {
	t.Helper()
	v, err := NewJWT(t.Context(), JWT{Claims: Claims{Audience: resource, TenantClaim: "tenant", Tenants: []string{"acme", "globex"}}, Issuer: i.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Client.CloseIdleConnections)
	c := Config{Verifier: v, Issuers: []string{i.URL}}
	for _, f := range change {
		f(&c)
	}
	return newDoor(t, c)
}

func effects(_ context.Context, c connector.Caller, tool string) (connector.Effect, bool) {
	switch tool {
	case "desk.get":
		return connector.EffectRead, true
	case "desk.create":
		return connector.EffectCompensable, c.Principal != "hidden"
	}
	return 0, false
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func toolCall(name string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"}}`
}

// send posts a message as a client does; change may spoil it.
func (d *door) send(body, token string, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(http.MethodPost, resource, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	d.edge.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.reached.Add(1)
		d.last.id, _ = IdentityFrom(r.Context())
		d.last.head = r.Header.Clone()
		raw, _ := io.ReadAll(r.Body)
		d.last.body = string(raw)
	})).ServeHTTP(w, r)
	return w.Result()
}

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
		"two headers":  func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+i.token()) },
		"basic":        func(r *http.Request) { r.Header.Set("Authorization", "Basic "+i.token()) },
		"in the query": func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "access_token=" + i.token() },
	} {
		if resp := d.send(ping, i.token(), change); resp.StatusCode != http.StatusUnauthorized {
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

var local = Static("local-token", Identity{Caller: connector.Caller{Tenant: "local", Principal: "me"}})

// Guarantee: MCP1
func TestOneMessageWithItsVersion(t *testing.T) {
	d := newDoor(t, Config{Verifier: local, MaxBody: 2000})
	version := func(v ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Mcp-Protocol-Version"] = v }
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	for name, c := range map[string]struct {
		body    string
		version []string
		status  int
	}{
		"modern":                {ping, []string{"2026-07-28"}, 200},
		"older":                 {ping, []string{"2025-06-18"}, 200},
		"handshake":             {initialize, nil, 200},
		"no version":            {ping, nil, 400},
		"no version, call":      {toolCall("desk.get"), nil, 400},
		"unknown old version":   {ping, []string{"2024-01-01"}, 400},
		"two versions":          {ping, []string{"2026-07-28", "2025-03-26"}, 400},
		"batch":                 {"[" + ping + "," + ping + "]", []string{"2025-03-26"}, 400},
		"batch without version": {"[" + initialize + "]", nil, 400},
		"two documents":         {ping + ping, []string{"2026-07-28"}, 400},
		"names twice":           {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, []string{"2026-07-28"}, 400},
		"tool twice":            {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, []string{"2026-07-28"}, 400},
		"no tool":               {`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, []string{"2026-07-28"}, 400},
		"not JSON":              {"{", []string{"2026-07-28"}, 400},
		"text":                  {`"ping"`, []string{"2026-07-28"}, 400},
		"too large":             {ping + strings.Repeat(" ", 2000), []string{"2026-07-28"}, 413},
	} {
		before := d.reached.Load()
		resp := d.send(c.body, "local-token", version(c.version...))
		if resp.StatusCode != c.status || d.reached.Load()-before != map[bool]int64{true: 1}[c.status == 200] {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.status)
		}
	}
	resp := d.send(ping, "local-token", version("2024-01-01"))
	var doc struct {
		Error struct {
			Code int
			Data struct{ Supported []string }
		}
	}
	if json.NewDecoder(resp.Body).Decode(&doc) != nil || doc.Error.Code != unsupportedVersion || len(doc.Error.Data.Supported) < 3 {
		t.Errorf("an unknown version: %+v", doc)
	}
	if resp := d.send(ping, "local-token", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }); resp.StatusCode != 415 {
		t.Errorf("gzip: %d", resp.StatusCode)
	}
}

// Guarantee: MCP2
func TestHostsAndOrigins(t *testing.T) {
	d := newDoor(t, Config{Verifier: local, Hosts: []string{"proxy.internal:8080"}, Origins: []string{"https://app.example"}})
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for name, c := range map[string]struct {
			host, origin, site string
			good               bool
		}{
			"own":                {"bridge.example", "", "", true},
			"own with port":      {"bridge.example:443", "", "", true},
			"own in capitals":    {"BRIDGE.example", "", "", true},
			"proxy":              {"proxy.internal:8080", "", "", true},
			"rebinding":          {"evil.example", "", "", false},
			"address":            {"127.0.0.1", "", "", false},
			"other port":         {"bridge.example:8443", "", "", false},
			"own page":           {"bridge.example", "https://bridge.example", "same-origin", true},
			"allowed page":       {"bridge.example", "https://app.example", "cross-site", true},
			"foreign page":       {"bridge.example", "https://evil.example", "cross-site", false},
			"foreign, no header": {"bridge.example", "https://evil.example", "", false},
			"null":               {"bridge.example", "null", "", false},
			"other scheme":       {"bridge.example", "http://bridge.example", "", false},
		} {
			resp := d.send(ping, "local-token", func(r *http.Request) {
				r.Method, r.Host = method, c.host
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
				if c.site != "" {
					r.Header.Set("Sec-Fetch-Site", c.site)
				}
			})
			if (resp.StatusCode == 200) != c.good || !c.good && resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s: %d", method, name, resp.StatusCode)
			}
		}
	}
}

// Guarantee: MCP2, MCP4
func TestScopeChallenges(t *testing.T) {
	i := newIssuer(t)
	d := jwtDoor(t, i, func(c *Config) { c.Effect = effects })
	for name, c := range map[string]struct {
		scope, tool, wants string
	}{
		"read":                  {"mcp:read", "desk.get", ""},
		"write":                 {"mcp:read mcp:write", "desk.create", ""},
		"write without read":    {"mcp:write", "desk.create", "mcp:read mcp:write"},
		"write with read alone": {"mcp:read", "desk.create", "mcp:read mcp:write"},
		"nothing":               {"", "desk.get", "mcp:read"},
		"part of a name":        {"mcp:reader", "desk.get", "mcp:read"},
		"unknown":               {"", "desk.drop", ""},
	} {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			resp := d.send(toolCall(c.tool), i.token(claims{"scope": c.scope}), func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", version) })
			want := `Bearer resource_metadata="` + d.edge.MetadataURL() + `", scope="` + c.wants + `", error="insufficient_scope"`
			if c.wants == "" && resp.StatusCode != 200 || c.wants != "" && (resp.StatusCode != 403 || resp.Header.Get("WWW-Authenticate") != want) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
			}
		}
	}
	// A tool that this caller may not see answers like one that isn't there.
	v, err := NewJWT(t.Context(), JWT{Claims: Claims{Audience: resource, TenantClaim: "tenant", PrincipalClaim: "sub"}, Issuer: i.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Client.CloseIdleConnections)
	hidden := newDoor(t, Config{Verifier: v, Effect: effects})
	if resp := hidden.send(toolCall("desk.create"), i.token(claims{"sub": "hidden", "scope": ""})); resp.StatusCode != 200 {
		t.Errorf("a hidden tool is told by a challenge: %d", resp.StatusCode)
	}
}

func TestRates(t *testing.T) {
	d := newDoor(t, Config{Verifier: verifierFunc(func(token string) (Identity, error) {
		tenant, who, _ := strings.Cut(token, ".")
		return Identity{Caller: connector.Caller{Tenant: connector.TenantID(tenant), Principal: connector.PrincipalID(who)}}, nil
	}), Limits: Limits{Principal: 2, Tenant: 4, Tool: 1}})
	now := time.Now()
	d.edge.rates.now = func() time.Time { return now }
	count := func(n int, token, body string) (ok int, retry string) {
		for range n {
			resp := d.send(body, token)
			if resp.StatusCode == 200 {
				ok++
			} else if resp.StatusCode == 429 {
				retry = resp.Header.Get("Retry-After")
			} else {
				t.Fatal(resp.StatusCode)
			}
		}
		return ok, retry
	}
	if ok, retry := count(10, "acme.alice", ping); ok != 4 || retry != "1" {
		t.Errorf("a principal had %d, then wait %s", ok, retry)
	}
	if ok, _ := count(10, "acme.bob", toolCall("desk.get")); ok != 2 {
		t.Errorf("a tool was called %d times", ok)
	}
	count(10, "acme.carol", ping)
	if ok, _ := count(10, "acme.dave", ping); ok != 0 {
		t.Errorf("a tenant's fourth principal had %d", ok)
	}
	if ok, _ := count(10, "globex.alice", ping); ok != 4 {
		t.Errorf("another tenant's principal had %d", ok)
	}
	now = now.Add(time.Second)
	if ok, _ := count(10, "acme.alice", ping); ok != 2 {
		t.Errorf("a second later a principal had %d", ok)
	}
	for i := range maxBuckets + 100 {
		d.edge.rates.take(connector.Caller{Tenant: "t", Principal: connector.PrincipalID(fmt.Sprint(i))}, "")
	}
	if n := d.edge.rates.order.Len(); n != maxBuckets || len(d.edge.rates.byKey) != maxBuckets {
		t.Errorf("%d buckets are kept", n)
	}
}

type verifierFunc func(string) (Identity, error)

func (f verifierFunc) Verify(_ context.Context, token string) (Identity, error) { return f(token) }

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

func TestWhatCannotBeOpened(t *testing.T) {
	for _, c := range []Config{{}, {Resource: resource}, {Verifier: local}, {Resource: "http://bridge.example/mcp", Verifier: local}, {Resource: "https://u@bridge.example", Verifier: local},
		{Resource: "https://bridge.example/mcp?x=1", Verifier: local}, {Resource: resource, Verifier: local, MaxBody: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	for _, j := range []JWT{{Issuer: "https://id.example"}, {Issuer: "http://id.example", Claims: Claims{Audience: "a", Tenant: "t"}},
		{Issuer: "https://id.example", Claims: Claims{Audience: "a"}}, {Issuer: "https://id.example", Claims: Claims{Audience: "a", Tenant: "t", TenantClaim: "t"}},
		{Issuer: "https://id.example", KeysURL: "https://id.example/k", Algorithms: []string{"HS256"}, Claims: Claims{Audience: "a", Tenant: "t"}},
		{Issuer: "https://id.example", KeysURL: "https://id.example/k", Algorithms: []string{"none"}, Claims: Claims{Audience: "a", Tenant: "t"}}} {
		if _, err := NewJWT(t.Context(), j); err == nil {
			t.Errorf("%+v was accepted", j)
		}
	}
}

// FuzzMessage hands any body and header to the door. Nothing panics, and a call that
// comes through is the one that was looked at.
func FuzzMessage(f *testing.F) {
	f.Add(ping, "2026-07-28")
	f.Add(toolCall("desk.get"), "2025-11-25")
	f.Add(`{"method":"initialize"}`, "")
	f.Add(`[{"method":"tools/call"}]`, "2025-03-26")
	f.Fuzz(func(t *testing.T, body, version string) {
		d := newDoor(t, Config{Verifier: local})
		resp := d.send(body, "local-token", func(r *http.Request) {
			r.Header.Del("Mcp-Protocol-Version")
			if version != "" {
				r.Header["Mcp-Protocol-Version"] = []string{version}
			}
		})
		if resp.StatusCode != 200 {
			if d.reached.Load() != 0 {
				t.Fatal("refused and let through")
			}
			return
		}
		var doc struct{ Method string }
		if d.last.body != body || strings.HasPrefix(strings.TrimSpace(body), "[") || json.Unmarshal([]byte(body), &doc) != nil || version == "" && doc.Method != "initialize" {
			t.Fatalf("%q came through with version %q", body, version)
		}
	})
}
