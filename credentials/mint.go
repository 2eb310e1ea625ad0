package credentials

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// mint asks for a token that needs no token before it. What renews it is the
// installation's id for an app, and nothing for client credentials.
func (s *Service) mint(ctx context.Context, p *Provider, renews Secret, scopes []string) (answer, error) {
	if p.Kind == KindApp {
		return s.installationToken(ctx, p, renews)
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, p.separator()))
	}
	a, err := s.token(ctx, p, form)
	if a.grant != nil {
		// RFC 6749 section 4.4.3: there should be none, and it is not needed.
		a.grant.refresh = Secret{}
	}
	return a, err
}

// Of an app's assertion: a minute back for clocks that differ, and less than
// the ten minutes that providers accept.
const (
	appAssertionBack = time.Minute
	appAssertionLife = 5 * time.Minute
	maxAppToken      = 24 * time.Hour
)

// installationToken exchanges a signed assertion for the token of one
// installation.
func (s *Service) installationToken(ctx context.Context, p *Provider, installation Secret) (answer, error) {
	now, err := s.clock.now(ctx)
	if err != nil {
		return answer{class: classNotSent}, storage(err)
	}
	assertion, err := p.ClientKey.jwt(map[string]any{
		"iss": p.ClientID, "iat": now.Add(-appAssertionBack).Unix(), "exp": now.Add(appAssertionLife).Unix(),
	})
	if err != nil {
		return answer{class: classNotSent}, err
	}
	at := strings.Replace(p.InstallationURL, "{installation}", url.PathEscape(installation.reveal()), 1)
	resp, err := s.cfg.Exchanger.Exchange(ctx, p.Profile, transport.Exchange{
		Method: http.MethodPost, URL: at, Header: http.Header{"Authorization": {"Bearer " + assertion}},
	})
	a := answer{sentAt: now, status: resp.Status, retryAfter: resp.RetryAfter}
	if err != nil {
		e := connector.AsError(err)
		a.status, a.class, a.retryAfter = 0, classUnknown, e.RetryAfter
		if e.Effect == connector.DispositionNotApplied {
			a.class = classNotSent
		}
		return a, nil
	}
	switch {
	case resp.Status == http.StatusOK || resp.Status == http.StatusCreated:
		a.class = classUnknown
		if g := installationGrant(resp, now); g != nil {
			g.refresh = installation
			a.class, a.grant = classGranted, g
		}
	case resp.Status == http.StatusUnauthorized:
		a.class, a.code = classMisconfigured, "invalid_client" // our key or our clock
	case resp.Status == http.StatusNotFound || resp.Status == http.StatusGone:
		a.class, a.code = classRejected, "invalid_grant" // uninstalled
	case resp.Status == http.StatusTooManyRequests || resp.Status == http.StatusForbidden && resp.RetryAfter > 0:
		a.class = classThrottled
	case resp.Status >= 400 && resp.Status < 500:
		a.class = classRefused // suspended, for example
	default:
		a.class = classUnknown
	}
	return a, nil
}

func installationGrant(resp connector.Response, now time.Time) *grant {
	doc, err := connector.DecodeJSON[struct {
		Token       string            `json:"token"`
		ExpiresAt   time.Time         `json:"expires_at"`
		Permissions map[string]string `json:"permissions"`
	}](resp)
	if err != nil || !validToken(doc.Token) {
		return nil
	}
	g := &grant{access: NewSecret(doc.Token), hasScopes: doc.Permissions != nil}
	// An end by the provider's clock. One that is past by ours says nothing
	// about the token; it is used until it is refused.
	if left := doc.ExpiresAt.Sub(now); left > 0 && left < maxAppToken {
		g.lifetime = left
	}
	for name, level := range doc.Permissions {
		if scope := name + ":" + level; validScope(scope) {
			g.scopes = append(g.scopes, scope)
		}
	}
	slices.Sort(g.scopes)
	return g
}
