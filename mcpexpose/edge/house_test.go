package edge

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const resource = "https://bridge.example/mcp"

var b64 = base64.RawURLEncoding.EncodeToString

// issuer is an authorization server with keys that turn over.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex
	keys    map[string]*rsa.PrivateKey
	down    bool
	fetched atomic.Int64              // key sets handed out
	active  func(token string) string // introspection's answer
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
			i.fetched.Add(1)
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

var local = Static("local-token", Identity{Caller: connector.Caller{Tenant: "local", Principal: "me"}})

type verifierFunc func(string) (Identity, error)

func (f verifierFunc) Verify(_ context.Context, token string) (Identity, error) { return f(token) }
