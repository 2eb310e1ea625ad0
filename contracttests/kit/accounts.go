package kit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// Accounts are the sign-in of a provider that a harness plays: two people, their
// tokens or keys, and what each token may do. A provider embeds it, which gives
// it Connect, and hands POST /token to it.
//
// It is enough for the contract of a connector. The sandbox organisation has a
// whole authorization server, with rotation and revocation.
type Accounts struct {
	kind   credentials.Kind
	mu     sync.Mutex
	codes  map[string]grant // by code, each good once
	tokens map[string]grant
}

type grant struct {
	who       Person
	scopes    string // separated by blanks; empty: all
	challenge string // of PKCE
}

const (
	accountsClient = "contract-tests"
	accountsSecret = "secret-of-the-contract-tests"
)

// NewAccounts makes accounts for the authorization code flow with PKCE, for
// client credentials, or for static keys.
func NewAccounts(kind credentials.Kind) *Accounts {
	return &Accounts{kind: kind, codes: map[string]grant{}, tokens: map[string]grant{}}
}

// SignIn is how credentials work at a provider with this URL.
func (a *Accounts) SignIn(providerURL string) credentials.Provider {
	p := credentials.Provider{Kind: a.kind}
	switch a.kind {
	case credentials.KindAuthorizationCode:
		p.AuthorizationURL, p.Method = providerURL+"/authorize", credentials.AuthNone
	case credentials.KindClientCredentials:
		p.Method, p.ClientSecret = credentials.AuthPost, credentials.NewSecret(accountsSecret)
	default:
		return p
	}
	p.Issuer, p.TokenURL, p.ClientID = providerURL, providerURL+"/token", accountsClient
	return p
}

// Connect makes a connection to a person's account.
func (a *Accounts) Connect(ctx context.Context, s *credentials.Service, caller connector.Caller, who Person, w Wish) (connector.Connection, error) {
	switch a.kind {
	case credentials.KindStatic:
		return WithKey(ctx, s, caller, w, credentials.NewSecret(a.token(grant{who: who})))
	case credentials.KindClientCredentials:
		if who != Owner {
			return connector.Connection{}, ErrNoPerson // an application has one account
		}
		return WithKey(ctx, s, caller, w, credentials.Secret{})
	}
	return SignIn(ctx, s, caller, w, func(_ context.Context, authorizeURL string) (*url.URL, error) {
		return a.consent(authorizeURL, who)
	})
}

// consent is the person in front of the authorization page, who agrees.
func (a *Accounts) consent(authorizeURL string, who Person) (*url.URL, error) {
	u, err := url.Parse(authorizeURL)
	if err != nil {
		return nil, err
	}
	asked := u.Query()
	back, err := url.Parse(asked.Get("redirect_uri"))
	if err != nil {
		return nil, err
	}
	code := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.codes[code] = grant{who: who, scopes: asked.Get("scope"), challenge: asked.Get("code_challenge")}
	back.RawQuery = url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode()
	return back, nil
}

func (a *Accounts) token(g grant) string {
	token := "tok_" + rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens[token] = g
	return token
}

// ServeHTTP is the token endpoint.
func (a *Accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	g, fault := a.redeem(r)
	if fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": fault}) // a client that has gone
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"access_token": a.token(g), "token_type": "Bearer", "scope": g.scopes})
}

func (a *Accounts) redeem(r *http.Request) (g grant, fault string) {
	if r.Method != http.MethodPost || r.ParseForm() != nil || r.PostForm.Get("client_id") != accountsClient {
		return g, "invalid_client"
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		a.mu.Lock()
		g, ok := a.codes[r.PostForm.Get("code")]
		delete(a.codes, r.PostForm.Get("code"))
		a.mu.Unlock()
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge {
			return g, "invalid_grant"
		}
		return g, ""
	case "client_credentials":
		if a.kind != credentials.KindClientCredentials || r.PostForm.Get("client_secret") != accountsSecret {
			return g, "invalid_client"
		}
		return grant{who: Owner, scopes: r.PostForm.Get("scope")}, ""
	}
	return g, "unsupported_grant_type"
}

// Who is the person whose token a request carries, if it may be used for the
// scope. The status is what the provider answers otherwise, 401 or 403, and zero
// if it may. An empty scope asks for the person alone; a static key may do all.
func (a *Accounts) Who(r *http.Request, scope string) (who Person, status int) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	defer a.mu.Unlock()
	g, known := a.tokens[token]
	switch {
	case !ok || !known:
		return 0, http.StatusUnauthorized
	case scope != "" && g.scopes != "" && !slices.Contains(strings.Fields(g.scopes), scope):
		return 0, http.StatusForbidden
	}
	return g.who, 0
}
