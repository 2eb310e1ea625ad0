package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Claims say how a token names a caller.
type Claims struct {
	// Audience is what a token must be for: our resource. Required.
	Audience string
	// Tenant of everybody, or TenantClaim: the claim that names it, a text. One of the
	// two is required.
	Tenant, TenantClaim string
	// Tenants are the ones that are let in. Empty: all that the claim names.
	Tenants []string
	// PrincipalClaim names the claim that is the principal: one that is never given to
	// a second person. Empty: "<issuer>|<sub>".
	PrincipalClaim string
}

func (c Claims) check() error {
	if c.Audience == "" || (c.Tenant == "") == (c.TenantClaim == "") {
		return errors.New("edge: an audience, and either a tenant or the claim that names it, are required")
	}
	return nil
}

// JWT verifies access tokens that are signed (RFC 9068).
type JWT struct {
	Claims
	Issuer string // exact
	// KeysURL is the issuer's key set. Empty: it is read from the issuer's metadata.
	KeysURL string
	// Algorithms that are accepted. Empty: RS256, PS256, ES256 and EdDSA. A shared
	// secret's (HS256) and none are never: a public key would do as the secret.
	Algorithms []string
	Client     *http.Client // for keys and metadata; nil: one of our own
	Now        func() time.Time

	verifier *oidc.IDTokenVerifier
}

// skew is how far clocks may differ.
const skew = 30 * time.Second

var signed = []string{"RS256", "PS256", "ES256", "EdDSA"}

// NewJWT finds the keys of an issuer. The context covers that alone.
func NewJWT(ctx context.Context, j JWT) (*JWT, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	u, err := url.Parse(j.Issuer)
	if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, errors.New("edge: the issuer must be https, or http on a loopback address")
	}
	if len(j.Algorithms) == 0 {
		j.Algorithms = signed
	}
	for _, a := range j.Algorithms {
		if a == "none" || strings.HasPrefix(a, "HS") {
			return nil, fmt.Errorf("edge: %s proves nothing about an issuer", a)
		}
	}
	if j.Client == nil {
		j.Client = plainClient()
	}
	if j.Now == nil {
		j.Now = time.Now
	}
	fetch := *j.Client
	fetch.Transport = newCalm(j.Client.Transport)
	own := oidc.ClientContext(context.WithoutCancel(ctx), &fetch)
	if j.KeysURL == "" {
		found, err := oidc.NewProvider(oidc.ClientContext(ctx, j.Client), j.Issuer)
		if err != nil {
			return nil, fmt.Errorf("edge: metadata of the issuer: %w", err)
		}
		var meta struct {
			Keys string `json:"jwks_uri"`
		}
		if err := found.Claims(&meta); err != nil || meta.Keys == "" {
			return nil, errors.New("edge: the issuer's metadata names no keys")
		}
		j.KeysURL = meta.Keys
	}
	j.verifier = oidc.NewVerifier(j.Issuer, oidc.NewRemoteKeySet(own, j.KeysURL), &oidc.Config{
		SkipClientIDCheck: true, SupportedSigningAlgs: j.Algorithms,
		Now: func() time.Time { return j.Now().Add(-skew) },
	})
	return &j, nil
}

// plainClient follows nothing and waits for nobody.
func plainClient() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Verify checks signature, issuer, audience, times and tenant.
func (j *JWT) Verify(ctx context.Context, token string) (Identity, error) {
	t, err := j.verifier.Verify(ctx, token)
	if err != nil {
		// The library does not say whether the keys could not be had or the token is
		// wrong. Both keep the caller outside; the difference is only the answer.
		if strings.Contains(err.Error(), "fetching keys") {
			return Identity{}, errors.New("the issuer's keys can't be had")
		}
		return Identity{}, ErrToken
	}
	var raw json.RawMessage
	if t.Claims(&raw) != nil {
		return Identity{}, ErrToken
	}
	return j.identity(raw, j.Issuer, j.Now())
}

// identity reads the claims of a token that is known to be the issuer's.
func (c Claims) identity(raw []byte, issuer string, now time.Time) (Identity, error) {
	var named map[string]json.RawMessage
	var known struct {
		Subject  string          `json:"sub"`
		Audience json.RawMessage `json:"aud"`
		Expires  *float64        `json:"exp"`
		Before   float64         `json:"nbf"`
		Scope    string          `json:"scope"`
		Scp      []string        `json:"scp"`
		Client   string          `json:"client_id"`
		Party    string          `json:"azp"`
	}
	// encoding/json would take a claim "SCOPE", which a person may be able to set
	// at their issuer, for the "scope" that the issuer vouches for.
	if jsonv2.Unmarshal(raw, &named) != nil || jsonv2.Unmarshal(raw, &known) != nil {
		return Identity{}, ErrToken
	}
	text := func(claim string) string {
		var s string
		if json.Unmarshal(named[claim], &s) != nil {
			return ""
		}
		return s
	}
	id := Identity{Issuer: issuer, ClientID: known.Client, Scopes: append(strings.Fields(known.Scope), known.Scp...)}
	if id.ClientID == "" {
		id.ClientID = known.Party
	}
	if !c.forUs(known.Audience) || known.Expires == nil || known.Subject == "" {
		return Identity{}, ErrToken
	}
	id.Expiry = time.Unix(int64(*known.Expires), 0)
	if !now.Before(id.Expiry.Add(skew)) || now.Before(time.Unix(int64(known.Before), 0).Add(-skew)) {
		return Identity{}, ErrToken
	}
	tenant, principal := c.Tenant, issuer+"|"+known.Subject
	if c.TenantClaim != "" {
		tenant = text(c.TenantClaim)
	}
	if c.PrincipalClaim != "" {
		principal = text(c.PrincipalClaim)
	}
	if tenant == "" || principal == "" || len(c.Tenants) > 0 && !slices.Contains(c.Tenants, tenant) {
		return Identity{}, ErrToken
	}
	id.Caller = connector.Caller{Tenant: connector.TenantID(tenant), Principal: connector.PrincipalID(principal)}
	return id, nil
}

// forUs compares audiences exactly, but for one slash at the end, which clients add.
func (c Claims) forUs(raw json.RawMessage) bool {
	var many []string
	var single string
	if json.Unmarshal(raw, &single) == nil {
		many = []string{single}
	} else if json.Unmarshal(raw, &many) != nil {
		return false
	}
	return slices.ContainsFunc(many, func(a string) bool {
		return a != "" && strings.TrimSuffix(a, "/") == strings.TrimSuffix(c.Audience, "/")
	})
}
