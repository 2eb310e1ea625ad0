package credentials

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// AuthMethod says how we prove to the token endpoint which client we are. It is
// fixed by configuration: trying one and then the other spends a code or a
// refresh token twice.
type AuthMethod string

const (
	AuthNone  AuthMethod = "none"  // a public client: client_id in the form
	AuthBasic AuthMethod = "basic" // RFC 6749 section 2.3.1, the Authorization header
	AuthPost  AuthMethod = "post"  // id and secret in the form
)

// A Provider is one client registration at one authorization server. Its facts
// are the administrator's word (pinned), not discovered.
type Provider struct {
	// ID is what connectors call the provider. Required.
	ID string
	// Profile is the endpoint profile that guards requests to this instance,
	// the token endpoint included. Required.
	Profile string
	// Issuer is the authorization server's identifier, compared byte for byte.
	Issuer string
	// The endpoints. RevocationURL may be empty: then a disconnect can't claim
	// that the provider revoked anything.
	AuthorizationURL string
	TokenURL         string
	RevocationURL    string
	// IssAdvertised: the server's metadata says that authorization answers
	// carry iss (RFC 9207), so one without it is refused.
	IssAdvertised bool

	ClientID     string
	ClientSecret Secret
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
	case p.ClientID == "":
		return fmt.Errorf("provider %s: no client id", p.ID)
	case p.DefaultLifetime < 0:
		return fmt.Errorf("provider %s: negative lifetime", p.ID)
	}
	for name, raw := range map[string]string{"authorization": p.AuthorizationURL, "token": p.TokenURL, "revocation": p.RevocationURL} {
		if raw == "" && name == "revocation" {
			continue
		}
		if err := checkEndpoint(raw); err != nil {
			return fmt.Errorf("provider %s: %s endpoint: %w", p.ID, name, err)
		}
	}
	switch p.Method {
	case AuthNone:
		if !p.ClientSecret.IsZero() {
			return fmt.Errorf("provider %s: a client secret, but method none", p.ID)
		}
	case AuthBasic, AuthPost:
		if p.ClientSecret.IsZero() {
			return fmt.Errorf("provider %s: method %s needs a client secret", p.ID, p.Method)
		}
	default:
		return fmt.Errorf("provider %s: client authentication method must be none, basic or post", p.ID)
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
