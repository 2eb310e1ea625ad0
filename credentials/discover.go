package credentials

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

const (
	metadataTTL   = time.Hour
	metadataStale = 24 * time.Hour // how long what is known is used while the server does not answer
	metadataRetry = time.Minute
)

// metadata is what RFC 8414 and OpenID Connect Discovery say about a server.
type metadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Device        string   `json:"device_authorization_endpoint"`
	Responses     []string `json:"response_types_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	Iss           bool     `json:"authorization_response_iss_parameter_supported"`
}

// discovered keeps the metadata of the providers that are not pinned.
type discovered struct {
	flights singleflight.Group

	mu    sync.Mutex
	found map[string]found
}

type found struct {
	p       *Provider
	at      time.Time
	checked time.Time
}

// provider returns a provider with its endpoints. They are pinned, or read from
// the server's metadata and kept for an hour; while the server does not answer,
// for a day. Metadata that does not fit ends that at once.
func (s *Service) provider(ctx context.Context, id string) (*Provider, error) {
	p := s.providers[id]
	switch {
	case p == nil:
		return nil, connector.Fail(connector.CodeUnavailable, "the provider of this connection is not configured")
	case !p.Discover:
		return p, nil
	}
	now := time.Now()
	s.meta.mu.Lock()
	known, ok := s.meta.found[id]
	s.meta.mu.Unlock()
	if ok && (now.Sub(known.at) < metadataTTL || now.Sub(known.checked) < metadataRetry) {
		return known.p, nil
	}
	flight := s.meta.flights.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.HTTPTimeout)
		defer cancel()
		return s.discover(ctx, p)
	})
	select {
	case r := <-flight:
		s.meta.mu.Lock()
		defer s.meta.mu.Unlock()
		if r.Err == nil {
			fresh := r.Val.(*Provider)
			s.meta.found[id] = found{fresh, now, now}
			return fresh, nil
		}
		if ok && connector.CodeOf(r.Err) == connector.CodeUnavailable && now.Sub(known.at) < metadataStale {
			known.checked = now
			s.meta.found[id] = known
			return known.p, nil
		}
		delete(s.meta.found, id)
		return nil, r.Err
	case <-ctx.Done():
		return nil, connector.AsError(ctx.Err())
	}
}

// wellKnown are the places of an issuer's metadata, in order: RFC 8414 section
// 3.1, its form for OpenID documents, and OpenID Connect Discovery section 4.
func wellKnown(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	out := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		out = append(out, origin+path+"/.well-known/openid-configuration")
	}
	return out
}

func (s *Service) discover(ctx context.Context, p *Provider) (*Provider, error) {
	for _, at := range wellKnown(p.Issuer) {
		resp, err := s.cfg.Exchanger.Exchange(ctx, p.Profile, transport.Exchange{Method: http.MethodGet, URL: at})
		switch {
		case err != nil && connector.CodeOf(err) == connector.CodeTooLarge:
			return nil, badMetadata("it is too large")
		case err != nil:
			return nil, unavailable(s.cfg.RetryBase, "the authorization server's metadata can not be read")
		case resp.Status == http.StatusOK:
			m, err := connector.DecodeJSON[metadata](resp)
			if err != nil {
				return nil, badMetadata("it is not the JSON that was expected")
			}
			return p.with(m)
		case resp.Status == http.StatusTooManyRequests || resp.Status >= 500:
			return nil, unavailable(max(resp.RetryAfter, s.cfg.RetryBase), "the authorization server's metadata can not be read")
		}
	}
	return nil, badMetadata("there is none")
}

func badMetadata(why string) error {
	return connector.Fail(connector.CodeProviderContract, "the authorization server's metadata is not accepted: %s", why)
}

// with is the provider with the endpoints of its metadata. The issuer is
// compared byte for byte (RFC 8414 section 3.3): a slash more is another server.
func (p *Provider) with(m metadata) (*Provider, error) {
	if m.Issuer != p.Issuer {
		return nil, badMetadata("it is that of another issuer")
	}
	q := *p
	q.AuthorizationURL, q.TokenURL, q.RevocationURL, q.IssAdvertised = m.Authorization, m.Token, m.Revocation, m.Iss
	q.Discover = false
	if p.Kind == KindAuthorizationCode {
		q.DeviceURL = m.Device
	}
	if p.Kind == KindAuthorizationCode {
		// Absent means that the server does not know PKCE (RFC 8414 section 2).
		if !slices.Contains(m.Challenges, "S256") {
			return nil, badMetadata("PKCE with S256 is not supported")
		}
		if m.Responses != nil && !slices.Contains(m.Responses, "code") {
			return nil, badMetadata("the authorization code flow is not supported")
		}
	}
	if m.Methods != nil && !slices.Contains(m.Methods, p.Method.registered()) {
		return nil, badMetadata("the configured client authentication is not supported")
	}
	if err := q.checkEndpoints(); err != nil {
		return nil, badMetadata("an endpoint is not acceptable")
	}
	return &q, nil
}

// registered is a method's name in the IANA registry.
func (m AuthMethod) registered() string {
	switch m {
	case AuthBasic:
		return "client_secret_basic"
	case AuthPost:
		return "client_secret_post"
	}
	return string(m)
}
