package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
)

// OIDC is a team's identity provider (OpenID Connect Core 1.0, code flow with PKCE).
// Its redirect URI is BaseURL + "/signin/callback".
type OIDC struct {
	// Issuer is the provider's identifier, https or http on a loopback address.
	// Its metadata is read at the first sign-in. Required.
	Issuer   string
	ClientID string // required
	// ClientSecret is sent in the Authorization header. Empty: a public client.
	ClientSecret string `json:"-"`
	// Title is what the button calls the provider. Empty: the issuer's host.
	Title string
	// Tenant of everybody who signs in. Empty: TenantClaim names the claim of the
	// ID token that holds it, a text. One of the two is required.
	Tenant, TenantClaim string
	// PrincipalClaim names the claim that is the principal: one that the provider
	// never gives to a second person. Empty: "<issuer>|<sub>".
	PrincipalClaim string
	// Scopes beside openid. Nil: profile.
	Scopes []string
}

// Format leaves the secret out, whatever the verb.
func (o OIDC) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "client %s at %s", o.ClientID, o.Issuer) }

func (o *OIDC) check() error {
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil || checkWeb(u) != nil:
		return errors.New("console: the issuer must be an https address, or http on a loopback address")
	case o.ClientID == "":
		return errors.New("console: sign-in needs a client id")
	case (o.Tenant == "") == (o.TenantClaim == ""):
		return errors.New("console: sign-in needs either a tenant or the claim that names it")
	}
	return nil
}

// label is what the button says.
func (o *OIDC) label() string {
	if o.Title != "" {
		return o.Title
	}
	u, _ := url.Parse(o.Issuer)
	return u.Host
}

// signInTTL is how long a person has at the identity provider.
const signInTTL = 10 * time.Minute

// attempt is one sign-in under way. It travels in a sealed cookie: only the browser
// that started can finish, and nothing piles up here for those who do not.
type attempt struct {
	State, Nonce, Verifier, Return string
	Expires                        time.Time
}

var attemptContext = keys.Context("console", "sign-in")

func (c *Console) oidcStart(w http.ResponseWriter, r *http.Request, s *session) {
	if c.cfg.OIDC == nil {
		c.notFound(w, r, s)
		return
	}
	if prefetch(r) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	config, _, err := c.identityProvider(r.Context())
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	now, err := c.cfg.DB.Now(r.Context())
	if err != nil {
		c.fail(w, r, s, storage(err))
		return
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Expires: now.Add(signInTTL),
		Return: returnTo(r.URL.Query().Get("return"))}
	raw, err := json.Marshal(a)
	if err == nil {
		raw, err = c.cfg.Keys.Seal(raw, attemptContext)
	}
	if err != nil {
		c.fail(w, r, s, storage(err))
		return
	}
	c.setCookie(w, "signin", base64.RawURLEncoding.EncodeToString(raw))
	http.Redirect(w, r, config.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), http.StatusSeeOther)
}

func (c *Console) oidcCallback(w http.ResponseWriter, r *http.Request, s *session) {
	if c.cfg.OIDC == nil {
		c.notFound(w, r, s)
		return
	}
	if prefetch(r) { // a guess of the browser must not spend the code
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a, caller, name, err := c.oidcFinish(r)
	c.setCookie(w, "signin", "") // an attempt is made once
	if err == nil {
		err = c.signIn(r.Context(), w, s, caller, name)
	}
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	http.Redirect(w, r, returnTo(a.Return), http.StatusSeeOther)
}

func (c *Console) oidcFinish(r *http.Request) (attempt, connector.Caller, string, error) {
	var a attempt
	var who connector.Caller
	ctx, q := r.Context(), r.URL.Query()
	refused := func(format string, args ...any) (attempt, connector.Caller, string, error) {
		return a, who, "", connector.Fail(connector.CodePermissionDenied, format, args...)
	}
	for _, name := range []string{"state", "code", "iss", "error"} {
		if len(q[name]) > 1 {
			return refused("the answer names %s twice", name)
		}
	}
	if cookie, err := r.Cookie(c.cookieName("signin")); err == nil {
		if raw, err := base64.RawURLEncoding.DecodeString(cookie.Value); err == nil {
			if raw, err = c.cfg.Keys.Open(raw, attemptContext); err == nil && json.Unmarshal(raw, &a) != nil {
				a = attempt{}
			}
		}
	}
	now, err := c.cfg.DB.Now(ctx)
	if err != nil {
		return a, who, "", storage(err)
	}
	switch {
	case a.State == "" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.State)) != 1:
		return refused("this sign-in was not started in this browser; start again")
	case !now.Before(a.Expires):
		return refused("this sign-in took too long; start again")
	case q.Has("iss") && q.Get("iss") != c.cfg.OIDC.Issuer: // RFC 9207
		return refused("the answer came from another identity provider")
	case q.Has("error"):
		return refused("the identity provider did not let you in")
	}
	config, verifier, err := c.identityProvider(ctx)
	if err != nil {
		return a, who, "", err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, identityClient), identityPatience)
	defer cancel()
	token, err := config.Exchange(ctx, q.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		// x/oauth2's error quotes the body, which is foreign text.
		c.log.WarnContext(ctx, "the identity provider refused the code", "issuer", c.cfg.OIDC.Issuer)
		return refused("the identity provider refused this sign-in; start again")
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := verifier.Verify(ctx, raw)
	if err != nil || subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		c.log.WarnContext(ctx, "the ID token was refused", "issuer", c.cfg.OIDC.Issuer)
		return refused("the identity provider's answer is not valid; start again")
	}
	who, name, err := c.cfg.OIDC.who(id)
	return a, who, name, err
}

// who reads tenant and principal. A claim that is absent, empty or not a text is no
// identity, and there is no default for it.
func (o *OIDC) who(id *oidc.IDToken) (connector.Caller, string, error) {
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return connector.Caller{}, "", connector.Fail(connector.CodePermissionDenied, "the ID token can not be read")
	}
	text := func(claim string) string { s, _ := claims[claim].(string); return s }
	tenant, principal := o.Tenant, id.Issuer+"|"+id.Subject
	if o.TenantClaim != "" {
		tenant = text(o.TenantClaim)
	}
	if o.PrincipalClaim != "" {
		principal = text(o.PrincipalClaim)
	}
	if id.Subject == "" || !storable(tenant) || !storable(principal) {
		return connector.Caller{}, "", connector.Fail(connector.CodePermissionDenied, "the identity provider does not say which organisation you belong to, or who you are")
	}
	name := text("name")
	if !storable(name) {
		name = principal
	}
	return connector.Caller{Tenant: connector.TenantID(tenant), Principal: connector.PrincipalID(principal)}, name, nil
}

// identityPatience bounds one conversation with the identity provider.
const identityPatience = 15 * time.Second

// identityClient follows no redirect (a secret would go along), talks to nobody
// over plain http but this machine, and reads no endless answer.
var identityClient = &http.Client{
	Timeout:       identityPatience,
	Transport:     guardedTrip{http.DefaultTransport},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

type guardedTrip struct{ next http.RoundTripper }

func (g guardedTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := checkWeb(r.URL); err != nil {
		return nil, err
	}
	resp, err := g.next.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, 1<<20), resp.Body}
	}
	return resp, err
}

// identityProvider reads the metadata once it is needed and again until it could be
// read. go-oidc compares the issuer in it with ours.
func (c *Console) identityProvider(ctx context.Context) (*oauth2.Config, *oidc.IDTokenVerifier, error) {
	o := c.cfg.OIDC
	c.mu.Lock()
	known := c.identity
	c.mu.Unlock()
	if known == nil {
		ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, identityClient), identityPatience)
		defer cancel()
		var err error
		if known, err = oidc.NewProvider(ctx, o.Issuer); err != nil {
			c.log.WarnContext(ctx, "the identity provider's metadata can not be read", "issuer", o.Issuer, "err", err)
			return nil, nil, connector.Fail(connector.CodeUnavailable, "the identity provider can not be reached at the moment")
		}
		for _, endpoint := range []string{known.Endpoint().AuthURL, known.Endpoint().TokenURL} {
			if u, err := url.Parse(endpoint); err != nil || checkWeb(u) != nil {
				return nil, nil, connector.Fail(connector.CodeProviderContract, "the identity provider names an address that is not https")
			}
		}
		c.mu.Lock()
		c.identity = known
		c.mu.Unlock()
	}
	scopes := o.Scopes
	if scopes == nil {
		scopes = []string{"profile"}
	}
	config := &oauth2.Config{ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: known.Endpoint(),
		RedirectURL: c.base.String() + "/signin/callback", Scopes: slices.Concat([]string{oidc.ScopeOpenID}, scopes)}
	// Never guessed: x/oauth2 would send the code twice.
	config.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	if o.ClientSecret != "" {
		config.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return config, known.Verifier(&oidc.Config{ClientID: o.ClientID}), nil
}
