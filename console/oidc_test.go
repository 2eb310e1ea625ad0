package console

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/store"
)

// authority is a small identity provider. Each test bends one thing of it.
type authority struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu        sync.Mutex
	claims    map[string]any // over the usual ones; nil removes one
	tokenURL  string
	exchanges []url.Values
	basic     []string
	challenge string
	nonce     string
}

var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := signingKey()
	a := &authority{key: key, claims: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		token := a.URL + "/token"
		if a.tokenURL != "" {
			token = a.tokenURL
		}
		json.NewEncoder(w).Encode(map[string]any{"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": token,
			"jwks_uri": a.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
			"n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.exchanges = append(a.exchanges, r.PostForm)
		id, _, _ := r.BasicAuth()
		a.basic = append(a.basic, id)
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if encode(sum[:]) != a.challenge {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"access_token": "unused", "token_type": "Bearer", "id_token": a.idToken()})
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		a.Close()
		identityClient.CloseIdleConnections()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return a
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (a *authority) idToken() string {
	claims := map[string]any{"iss": a.URL, "sub": "4711", "aud": "pages", "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
		"nonce": a.nonce, "name": "Alice Adler", "org": "acme"}
	for name, value := range a.claims {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	payload, _ := json.Marshal(claims)
	signed := encode([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + encode(payload)
	sum := sha256.Sum256([]byte(signed))
	signature, _ := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, sum[:])
	return signed + "." + encode(signature)
}

func team(a *authority, change ...func(*OIDC)) func(*Config) {
	return func(c *Config) {
		c.OIDC = &OIDC{Issuer: a.URL, ClientID: "pages", ClientSecret: "s3cret-of-the-pages", TenantClaim: "org", Title: "Acme login"}
		for _, f := range change {
			f(c.OIDC)
		}
	}
}

// start begins a sign-in and returns the way back that the identity provider would
// send the browser.
func (b *browser) start(a *authority, wish string) string {
	b.k.t.Helper()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer func() { b.client.CheckRedirect = nil }()
	got := b.get("/signin/start?return=" + url.QueryEscape(wish))
	to, err := url.Parse(got.header.Get("Location"))
	if err != nil || got.status != http.StatusSeeOther || !strings.HasPrefix(to.String(), a.URL+"/authorize?") {
		b.k.t.Fatalf("%d to %s\n%s", got.status, to, got.body)
	}
	q := to.Query()
	a.mu.Lock()
	a.challenge, a.nonce = q.Get("code_challenge"), q.Get("nonce")
	a.mu.Unlock()
	if q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" || q.Get("redirect_uri") != b.k.server.URL+"/signin/callback" {
		b.k.t.Fatalf("asked with %v", q)
	}
	return "/signin/callback?" + url.Values{"code": {"c"}, "state": {q.Get("state")}}.Encode()
}

// Guarantee: OPS2
func TestTeamSignsInWithOpenIDConnect(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	k := sqlite(t, team(a))
	b := k.browser()
	shows(t, b.get("/approvals/apr_x"), 200, "Sign in with Acme login", `href="/signin/start?return=%2fapprovals%2fapr_x"`)
	back := b.start(a, "/connections")
	done := b.get(back)
	shows(t, done, 200, "Alice Adler of acme")
	if done.url.Path != "/connections" {
		t.Errorf("ended at %s", done.url)
	}
	var principal string
	if err := k.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT principal FROM console_session`).Scan(&principal); err != nil || principal != a.URL+"|4711" {
		t.Errorf("principal is %q (%v)", principal, err)
	}
	if diff := cmp.Diff([]string{"pages"}, a.basic); diff != "" || a.exchanges[0].Has("client_secret") {
		t.Errorf("the secret is sent otherwise than in the header, or twice: %s", diff)
	}
	// The same answer once more: the attempt is gone from the browser.
	shows(t, b.get(back), 403, "was not started in this browser")
	if text := fmt.Sprintf("%v %+v %#v", *k.console.cfg.OIDC, k.console.cfg.OIDC, *k.console.cfg.OIDC); strings.Contains(text, "s3cret") {
		t.Error("printing the settings prints the secret")
	}
}

// Guarantee: OPS2
func TestSignInsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims map[string]any
		back   func(string) string
		says   string
	}{
		"another state":    {nil, func(b string) string { return strings.Replace(b, "state=", "state=x", 1) }, "not started in this browser"},
		"no state":         {nil, func(string) string { return "/signin/callback?code=c" }, "not started in this browser"},
		"state twice":      {nil, func(b string) string { return b + "&state=y" }, "names state twice"},
		"another iss":      {nil, func(b string) string { return b + "&iss=https%3A%2F%2Fevil.example" }, "another identity provider"},
		"declined":         {nil, func(b string) string { return b + "&error=access_denied" }, "did not let you in"},
		"nonce of another": {map[string]any{"nonce": "x"}, nil, "not valid"},
		"no nonce":         {map[string]any{"nonce": nil}, nil, "not valid"},
		"another audience": {map[string]any{"aud": "others"}, nil, "not valid"},
		"another issuer":   {map[string]any{"iss": "https://evil.example"}, nil, "not valid"},
		"expired":          {map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, nil, "not valid"},
		"no tenant":        {map[string]any{"org": nil}, nil, "does not say which organisation"},
		"empty tenant":     {map[string]any{"org": ""}, nil, "does not say which organisation"},
		"tenants":          {map[string]any{"org": []string{"acme", "globex"}}, nil, "does not say which organisation"},
		"tenant with NUL":  {map[string]any{"org": "acme\u0000"}, nil, "does not say which organisation"},
		"no subject":       {map[string]any{"sub": ""}, nil, "does not say which organisation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t)
			k := sqlite(t, team(a))
			b := k.browser()
			back := b.start(a, "/")
			for claim, value := range c.claims {
				a.claims[claim] = value
			}
			if c.back != nil {
				back = c.back(back)
			}
			shows(t, b.get(back), 403, c.says)
			if at := b.get("/"); at.url.Path != "/signin" {
				t.Errorf("signed in all the same, at %s", at.url)
			}
		})
	}
}

func TestSignInOfAnotherBrowserIsRefused(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	k := sqlite(t, team(a))
	mine, victim := k.browser(), k.browser()
	back := mine.start(a, "/")
	shows(t, victim.get(back), 403, "not started in this browser") // login CSRF
	if len(a.exchanges) != 0 {
		t.Error("a code was exchanged")
	}
}

// A code is sent once, whatever the answer: a second use can end what the first got.
func TestRefusedCodeIsNotSentAgain(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	k := sqlite(t, team(a))
	b := k.browser()
	back := b.start(a, "/")
	a.challenge = "another"
	shows(t, b.get(back), 403, "refused this sign-in")
	if n := len(a.exchanges); n != 1 {
		t.Errorf("the code was sent %d times", n)
	}
}

func TestSignInTakesTooLong(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	k := sqlite(t, team(a))
	raw, err := json.Marshal(attempt{State: "s", Expires: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := k.host.Keys.Seal(raw, attemptContext)
	if err != nil {
		t.Fatal(err)
	}
	b := k.browser()
	r := b.request("GET", "/signin/callback?code=c&state=s", nil)
	r.AddCookie(&http.Cookie{Name: k.console.cookieName("signin"), Value: encode(sealed)})
	shows(t, b.do(r), 403, "took too long")
}

func TestFixedTenantAndClaimedPrincipal(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	k := sqlite(t, team(a, func(o *OIDC) { o.Tenant, o.TenantClaim, o.PrincipalClaim, o.ClientSecret = "globex", "", "uid", "" }))
	a.claims["uid"] = "u-1"
	b := k.browser()
	shows(t, b.get(b.start(a, "https://evil.example")), 200, "Alice Adler of globex")
	var principal string
	if err := k.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT principal FROM console_session`).Scan(&principal); err != nil || principal != "u-1" {
		t.Errorf("principal is %q (%v)", principal, err)
	}
	if len(a.exchanges) != 1 || a.exchanges[0].Get("client_id") != "pages" {
		t.Errorf("exchanges are %v", a.exchanges)
	}
}

func TestIdentityProviderThatIsAwayOrUnsafe(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	k := sqlite(t, team(a))
	a.tokenURL = "http://tokens.example/token"
	shows(t, k.browser().get("/signin/start"), 502, "names an address that is not https")
	a.tokenURL = ""
	k.browser().start(a, "/") // a bad answer is not kept
	a.Close()
	k = sqlite(t, team(a))
	shows(t, k.browser().get("/signin/start"), 503, "can not be reached", "Wait a moment")
}

func TestSettingsOfASignInThatAreRefused(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	good := OIDC{Issuer: "https://login.example", ClientID: "pages", Tenant: "acme"}
	for name, bend := range map[string]func(*OIDC){
		"plain http":     func(o *OIDC) { o.Issuer = "http://login.example" },
		"no client":      func(o *OIDC) { o.ClientID = "" },
		"no tenant":      func(o *OIDC) { o.Tenant = "" },
		"two for tenant": func(o *OIDC) { o.TenantClaim = "org" },
	} {
		config, bent := k.console.cfg, good
		bend(&bent)
		config.OIDC = &bent
		if _, err := New(config); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	config := k.console.cfg
	config.OIDC = &good
	if _, err := New(config); err != nil {
		t.Error(err)
	}
}
