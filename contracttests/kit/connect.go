package kit

import (
	"context"
	"net/url"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// RedirectURI is where providers of this kit send the browser. Nothing listens
// there: whoever plays the person reads the address.
const RedirectURI = "http://127.0.0.1:1/callback"

// SignIn connects an account by the authorization code flow. login plays the
// person: it is given the authorization URL and returns where the provider then
// sends the browser.
func SignIn(ctx context.Context, s *credentials.Service, caller connector.Caller, w Wish,
	login func(ctx context.Context, authorizeURL string) (*url.URL, error)) (connector.Connection, error) {
	browser := "the browser of " + string(caller.Principal)
	begun, err := s.Begin(ctx, caller, credentials.BeginRequest{Provider: w.Provider, RedirectURI: RedirectURI,
		BrowserKey: browser, Scopes: w.Scopes, Resources: w.Resources})
	if err != nil {
		return connector.Connection{}, err
	}
	back, err := login(ctx, begun.URL)
	if err != nil {
		return connector.Connection{}, err
	}
	return s.Finish(ctx, caller, browser, back.Query(), w.Identify)
}

// WithKey connects an account by a static key; none for client credentials.
func WithKey(ctx context.Context, s *credentials.Service, caller connector.Caller, w Wish, key credentials.Secret) (connector.Connection, error) {
	return s.Setup(ctx, caller, credentials.SetupRequest{Provider: w.Provider, Scopes: w.Scopes, Resources: w.Resources, Key: key}, w.Identify)
}
