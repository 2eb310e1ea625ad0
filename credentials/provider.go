package credentials

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// AuthMethod says how we prove to the token endpoint which client we are. It is
// fixed by configuration: trying one and then the other spends a code or a
// refresh token twice.
type AuthMethod string

const (
	AuthNone  AuthMethod = "none"  // a public client: client_id in the form
	AuthBasic AuthMethod = "basic" // RFC 6749 section 2.3.1, the Authorization header
	AuthPost  AuthMethod = "post"  // id and secret in the form
	// AuthPrivateKeyJWT signs an assertion with ClientKey (RFC 7523).
	AuthPrivateKeyJWT AuthMethod = "private_key_jwt"
)

// Kind is how a provider's tokens come about and are renewed.
type Kind string

const (
	// KindAuthorizationCode: a person signs in; a refresh token renews.
	KindAuthorizationCode Kind = ""
	// KindClientCredentials: the application's own account (RFC 6749 section
	// 4.4). A new token is asked for whenever one is needed.
	KindClientCredentials Kind = "client_credentials"
	// KindStatic: a key that an operator enters and replaces.
	KindStatic Kind = "static"
	// KindApp: a signed assertion of the application is exchanged for a short
	// token of one installation, as GitHub Apps do.
	KindApp Kind = "app"
)

// mints tells that a new token needs no token before it.
func (k Kind) mints() bool { return k == KindClientCredentials || k == KindApp }

// A Provider is one client registration at one authorization server. Its facts
// are the administrator's word (pinned), not discovered.
type Provider struct {
	// ID is what connectors call the provider. Required.
	ID string
	// Profile is the endpoint profile that guards requests to this instance,
	// the token endpoint included. Required.
	Profile string
	// Kind of credential. The zero value is the authorization code flow.
	Kind Kind
	// Issuer is the authorization server's identifier, compared byte for byte.
	Issuer string
	// Discover reads endpoints and IssAdvertised from the issuer's metadata
	// (RFC 8414, OpenID Connect Discovery) instead of being told them. The
	// metadata must name this issuer exactly and support S256.
	Discover bool
	// The endpoints. RevocationURL may be empty: then a disconnect can't claim
	// that the provider revoked anything.
	AuthorizationURL string
	TokenURL         string
	RevocationURL    string
	// DeviceURL is where sign-ins of terminals begin (RFC 8628). Empty: this
	// provider has none.
	DeviceURL string
	// InstallationURL of KindApp is where an assertion is exchanged, with
	// {installation} in the place of the installation's id.
	InstallationURL string
	// IssAdvertised: the server's metadata says that authorization answers
	// carry iss (RFC 9207), so one without it is refused.
	IssAdvertised bool

	ClientID     string
	ClientSecret Secret
	// ClientKey signs for AuthPrivateKeyJWT and KindApp.
	ClientKey ClientKey
	// AssertionAudience is what the assertion of AuthPrivateKeyJWT is for.
	// Empty: the issuer. Some servers want their token endpoint instead.
	AssertionAudience string
	// Header and Prefix are how a token goes into a request. Empty: the
	// Authorization header, "Bearer ". For KindStatic, a Header without a
	// Prefix carries the key alone.
	Header, Prefix string
	// Method has no default: the zero value is refused.
	Method AuthMethod

	// Scopes are asked for when a connection is begun without naming any.
	Scopes []string
	// MoreScopes may be asked for beside Scopes, one at a time, when a call
	// needs them. A scope in neither list can't be asked for at all.
	MoreScopes []string
	// ScopeSeparator is what stands between scopes. Empty: one space.
	ScopeSeparator string
	// AuthParams are added to the authorization URL (prompt, audience).
	AuthParams map[string]string
	// Resource is sent with every authorization and token request (RFC 8707).
	// Empty: not sent.
	Resource string
	// DefaultLifetime of an access token whose answer did not say. Zero: the
	// token is used until the provider refuses it.
	DefaultLifetime time.Duration
	// RefreshAliases are this server's own ways to say invalid_grant.
	RefreshAliases []Alias
}

// An Alias is a refusal that means invalid_grant. Every field that is not zero
// must match exactly.
type Alias struct {
	Status      int
	Error       string // the error member
	Description string // the error_description member
}

// The parameters that the flow itself sets; configuration can't replace them.
var ownParams = []string{
	"response_type", "client_id", "client_secret", "redirect_uri", "scope", "state",
	"code_challenge", "code_challenge_method", "resource", "response_mode", "request", "request_uri",
}

func (p *Provider) check() error {
	switch {
	case p.ID == "":
		return errors.New("provider without id")
	case p.Profile == "":
		return fmt.Errorf("provider %s: no endpoint profile", p.ID)
	case p.Issuer == "":
		return fmt.Errorf("provider %s: no issuer", p.ID)
	case p.ClientID == "" && p.Kind != KindStatic:
		return fmt.Errorf("provider %s: no client id", p.ID)
	case p.DefaultLifetime < 0:
		return fmt.Errorf("provider %s: negative lifetime", p.ID)
	}
	if err := p.checkKind(); err != nil {
		return fmt.Errorf("provider %s: %w", p.ID, err)
	}
	if p.Header != "" && !httpguts.ValidHeaderFieldName(p.Header) || !httpguts.ValidHeaderFieldValue(p.Prefix) {
		return fmt.Errorf("provider %s: header or prefix is not valid", p.ID)
	}
	for _, s := range slices.Concat(p.Scopes, p.MoreScopes) {
		if !validScope(s) {
			return fmt.Errorf("provider %s: a scope has a character that scopes can't have", p.ID)
		}
	}
	for name := range p.AuthParams {
		if slices.Contains(ownParams, name) {
			return fmt.Errorf("provider %s: authorization parameter %q is set by the flow", p.ID, name)
		}
	}
	if p.Resource != "" {
		// RFC 8707 section 2: an absolute URI without a fragment.
		if u, err := url.Parse(p.Resource); err != nil || !u.IsAbs() || strings.Contains(p.Resource, "#") {
			return fmt.Errorf("provider %s: resource must be an absolute URI without fragment", p.ID)
		}
	}
	for _, a := range p.RefreshAliases {
		if a == (Alias{}) || a.Status >= 500 {
			return fmt.Errorf("provider %s: an alias must match something below status 500", p.ID)
		}
	}
	return nil
}

// checkKind asks of each kind what it needs, and nothing that would be ignored.
func (p *Provider) checkKind() error {
	switch p.Kind {
	case KindAuthorizationCode, KindClientCredentials:
		if p.Discover && (p.AuthorizationURL != "" || p.TokenURL != "" || p.RevocationURL != "" || p.DeviceURL != "" || p.IssAdvertised) {
			return errors.New("endpoints are either given or discovered")
		}
		if p.Discover {
			if u, err := url.Parse(p.Issuer); err != nil || checkEndpoint(p.Issuer) != nil || u.RawQuery != "" {
				return errors.New("the issuer is not a URL that metadata can be read from")
			}
		} else if err := p.checkEndpoints(); err != nil {
			return err
		}
		if p.Kind == KindClientCredentials && p.DeviceURL != "" {
			return errors.New("a device endpoint, but nobody signs in")
		}
		if p.Kind == KindClientCredentials && p.Method == AuthNone {
			return errors.New("client credentials need a client authentication")
		}
		return p.checkMethod()
	case KindStatic:
		if p.anyEndpoint() || !p.ClientSecret.IsZero() || !p.ClientKey.IsZero() || p.Method != "" {
			return errors.New("a static key has no endpoints and no client secret")
		}
		return nil
	case KindApp:
		if p.anyEndpoint() || !p.ClientSecret.IsZero() || p.Method != "" {
			return errors.New("an app has an installation URL and a client key only")
		}
		if p.ClientKey.IsZero() || p.ClientKey.alg != "RS256" {
			return errors.New("an app needs an RSA client key")
		}
		if strings.Count(p.InstallationURL, "{installation}") != 1 {
			return errors.New("the installation URL must contain {installation} once")
		}
		return checkEndpoint(strings.Replace(p.InstallationURL, "{installation}", "1", 1))
	}
	return errors.New("unknown kind")
}

func (p *Provider) anyEndpoint() bool {
	return p.Discover || p.AuthorizationURL != "" || p.TokenURL != "" || p.RevocationURL != "" || p.DeviceURL != ""
}

func (p *Provider) checkMethod() error {
	secret, key := !p.ClientSecret.IsZero(), !p.ClientKey.IsZero()
	switch p.Method {
	case AuthNone:
		if secret || key {
			return errors.New("a client secret or key, but method none")
		}
	case AuthBasic, AuthPost:
		if !secret || key {
			return fmt.Errorf("method %s needs a client secret and no key", p.Method)
		}
	case AuthPrivateKeyJWT:
		if secret || !key {
			return errors.New("method private_key_jwt needs a client key and no secret")
		}
	default:
		return errors.New("client authentication method must be none, basic, post or private_key_jwt")
	}
	return nil
}

func (p *Provider) checkEndpoints() error {
	for name, raw := range map[string]string{"authorization": p.AuthorizationURL, "token": p.TokenURL, "revocation": p.RevocationURL, "device": p.DeviceURL} {
		if raw == "" && (name == "revocation" || name == "device" || name == "authorization" && p.Kind != KindAuthorizationCode) {
			continue
		}
		if err := checkEndpoint(raw); err != nil {
			return fmt.Errorf("%s endpoint: %w", name, err)
		}
	}
	return nil
}

// checkEndpoint allows plain http on loopback literals only, where the sandbox is.
func checkEndpoint(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("not a URL")
	case u.Host == "" || u.User != nil || strings.Contains(raw, "#"):
		return errors.New("must be absolute, without user or fragment")
	case u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("must be https")
}

// loopback accepts IP literals; "localhost" can resolve elsewhere (RFC 8252
// section 8.3).
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// validScope is RFC 6749 section 3.3.
func validScope(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (p *Provider) separator() string {
	if p.ScopeSeparator == "" {
		return " "
	}
	return p.ScopeSeparator
}

// splitScopes reads a provider's scope text. Whatever separator a provider
// asks for in requests, answers have been seen with spaces too.
func (p *Provider) splitScopes(text string) []string {
	var out []string
	for _, part := range strings.Split(text, p.separator()) {
		for _, s := range strings.Fields(part) {
			if validScope(s) && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}
