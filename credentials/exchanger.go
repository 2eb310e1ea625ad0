package credentials

import (
	"context"
	"net/http"
	"net/url"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// An Exchanger sends one request to an authorization server, once: no retry,
// no redirect, a size limit, and an error that says whether anything can have
// been received. *transport.Transport is one.
type Exchanger interface {
	Exchange(ctx context.Context, profile string, r transport.Exchange) (connector.Response, error)
}

// ExchangerFunc lets a function be an Exchanger. A Service needs a transport
// for its exchanges, and the transport needs the Service for its credentials;
// the program that wires them closes over a variable:
//
//	var guarded *transport.Transport
//	service, err := credentials.New(credentials.Config{Exchanger: credentials.ExchangerFunc(
//		func(ctx context.Context, profile string, r transport.Exchange) (connector.Response, error) {
//			return guarded.Exchange(ctx, profile, r)
//		})})
//	guarded, err = transport.New(transport.Config{Credentials: service})
type ExchangerFunc func(ctx context.Context, profile string, r transport.Exchange) (connector.Response, error)

// Exchange calls f.
func (f ExchangerFunc) Exchange(ctx context.Context, profile string, r transport.Exchange) (connector.Response, error) {
	return f(ctx, profile, r)
}

var _ transport.Credentials = (*Service)(nil)

// post sends a form to the token or revocation endpoint. An answer that came
// and could not be read whole is no answer: its status proves nothing about
// what a server did with a refresh token.
func (s *Service) post(ctx context.Context, p *Provider, endpoint string, form url.Values) reply {
	header := http.Header{}
	if err := s.authenticate(ctx, p, header, form); err != nil {
		s.log.ErrorContext(ctx, "the client can not be authenticated", "provider", p.ID, "error", err)
		return reply{}
	}
	resp, err := s.cfg.Exchanger.Exchange(ctx, p.Profile, transport.Exchange{URL: endpoint, Form: form, Header: header})
	if err != nil {
		e := connector.AsError(err)
		return reply{sent: e.Effect != connector.DispositionNotApplied, retryAfter: e.RetryAfter}
	}
	return reply{sent: true, status: resp.Status, body: resp.Body, retryAfter: resp.RetryAfter}
}
