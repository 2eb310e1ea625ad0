package credentials

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// finishPatience bounds what follows the exchange. The browser that brought
// the code may be gone; the grant is ours to store or to give back all the same.
const finishPatience = time.Minute

// Identify reads the account behind a fresh token. The connection it is given
// is provisional: Authorize serves it to this call only, it has no resources,
// and it ends with the call.
type Identify func(ctx context.Context, c connector.Connection) (connector.Identity, error)

// Finish is the callback of a sign-in. The query is what the provider sent the
// browser back with, browserKey the secret of the browser that brought it.
//
// A sign-in is used once. When it was used before, Finish makes no exchange and
// returns CONFLICT, together with the connection that the first use made. A
// foreign state is NOT_FOUND, an expired one GONE, an answer of another
// authorization server PERMISSION_DENIED. After any error nothing is connected
// that was not before, and what the provider had granted is given back.
//
// Connecting an account that the principal has connected already renews that
// connection. Renewing a connection with another account is CONFLICT: the old
// one stays as it is.
func (s *Service) Finish(ctx context.Context, caller connector.Caller, browserKey string, query url.Values, identify Identify) (connector.Connection, error) {
	if !s.enter() {
		return connector.Connection{}, unavailable(0, "the service is stopping")
	}
	defer s.running.Done()
	t, err := s.claimTransaction(ctx, caller, browserKey, query)
	if err != nil {
		if t != nil && t.status == "completed" {
			if v, showErr := s.Show(ctx, caller, t.connection); showErr == nil {
				return v.Connection, err
			}
		}
		return connector.Connection{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishPatience)
	defer cancel()
	c, code, err := s.complete(ctx, t, query, identify)
	if err != nil {
		if cerr := s.closeTransaction(ctx, t, "consumed", "failed", code); cerr != nil {
			s.log.WarnContext(ctx, "result of a sign-in was not stored", "transaction", t.id, "result", code)
		}
		return connector.Connection{}, storage(err)
	}
	return c, nil
}

// complete runs a claimed sign-in. The code says how it failed, for the record.
func (s *Service) complete(ctx context.Context, t *transaction, q url.Values, identify Identify) (connector.Connection, string, error) {
	var none connector.Connection
	if q.Has("error") {
		code := closedCode(q.Get("error"))
		return none, code, refusedByPerson(code)
	}
	if q.Get("code") == "" {
		return none, "no_code", connector.Fail(connector.CodeInvalidInput, "the provider's answer has neither a code nor an error")
	}
	p, why, err := s.settingsFit(ctx, t)
	if err != nil {
		return none, why, err
	}
	verifier, err := s.cfg.Keys.Open(t.verifier, t.place().verifier(t.id))
	if err != nil {
		return none, "verifier", err
	}
	a, err := s.exchangeCode(ctx, p, t, q.Get("code"), string(verifier))
	if err != nil {
		return none, string(a.class), err
	}
	return s.keepGrant(ctx, t, p, a, identify, nil)
}

// keepGrant makes a connection of what a token endpoint has just given, or
// gives it back. ready is asked first, once the grant is safe in the outbox;
// nil: nothing is left to ask.
func (s *Service) keepGrant(ctx context.Context, t *transaction, p *Provider, a answer, identify Identify, ready func() error) (connector.Connection, string, error) {
	var none connector.Connection
	s.circuits.close(p.key())
	tokens := pair{a.grant.access, a.grant.refresh}
	pending, err := s.keepForCleanup(ctx, t, p, tokens)
	if err != nil {
		s.revokeUnstored(ctx, p, tokens)
		return none, "store", err
	}
	if ready != nil {
		if err := ready(); err != nil {
			s.giveBack(ctx, t.tenant, pending)
			return none, "store", err
		}
	}
	c, code, err := s.settle(ctx, t, p, a, pending, identify)
	if err != nil {
		s.giveBack(ctx, t.tenant, pending)
	}
	return c, code, err
}

// settingsFit tells whether a sign-in may still talk to the server it was begun
// with. A code may only go to the token endpoint that was chosen at the start.
func (s *Service) settingsFit(ctx context.Context, t *transaction) (*Provider, string, error) {
	moved := connector.Fail(connector.CodeConflict, "the provider's settings have changed meanwhile; start again")
	if s.providers[t.provider] == nil {
		return nil, "provider_changed", moved
	}
	p, err := s.provider(ctx, t.provider)
	if err != nil {
		return nil, "metadata", err
	}
	if p.ClientID != t.client || p.Issuer != t.issuer || p.TokenURL != t.tokenURL {
		return nil, "provider_changed", moved
	}
	return p, "", nil
}

func refusedByPerson(code string) error {
	switch code {
	case "access_denied":
		e := connector.Fail(connector.CodePermissionDenied, "access was declined at the provider")
		e.Next = connector.NextAskPerson
		return e
	case "server_error", "temporarily_unavailable":
		return unavailable(0, "the provider can not sign anybody in at the moment")
	}
	return connector.Fail(connector.CodeProviderContract, "the provider refused the sign-in (%s)", code)
}

// exchangeCode sends the code once. Whatever comes of it, it is not sent again:
// a second use makes a provider revoke what the first one got.
func (s *Service) exchangeCode(ctx context.Context, p *Provider, t *transaction, code, verifier string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HTTPTimeout)
	defer cancel()
	a, err := s.token(ctx, p, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {t.redirectURI}, "code_verifier": {verifier},
	})
	if err != nil {
		return a, err
	}
	return a, signInFailure(a)
}

// signInFailure is what a person is told of a token endpoint's answer.
func signInFailure(a answer) error {
	switch a.class {
	case classGranted:
		return nil
	case classNotSent, classUnknown, classThrottled:
		return unavailable(a.retryAfter, "the provider's token endpoint gave no usable answer; start again")
	case classMisconfigured:
		return connector.Fail(connector.CodeProviderContract, "the provider does not accept this application (%s)", a.code)
	}
	return connector.Fail(connector.CodeConnectionRequired, "the provider did not accept the sign-in (%s); start again", a.code)
}

// settle identifies the account and makes or renews the connection.
func (s *Service) settle(ctx context.Context, t *transaction, p *Provider, a answer, pending []string, identify Identify) (connector.Connection, string, error) {
	var none connector.Connection
	g := a.grant
	granted := t.scopes // RFC 6749 section 5.1: left out means as requested
	if g.hasScopes {
		granted = g.scopes
	}
	c := connector.Connection{
		ID: connector.ConnectionID("provisional-" + rand.Text()), Tenant: t.tenant, Principal: t.principal,
		Provider: p.ID, Profile: p.Profile, Scopes: granted,
	}
	who, err := s.identify(ctx, c, g.access, identify)
	if err != nil {
		return none, "identify", err
	}
	if who.Account.Subject == "" {
		// An anonymous answer is no identity, however friendly its status.
		return none, "no_subject", connector.Fail(connector.CodeProviderContract, "the provider does not say whose token this is")
	}
	if who.Account.Issuer == "" {
		who.Account.Issuer = t.issuer
	}
	if !storable(who.Account.Subject) || !storable(who.Account.Issuer) || !storable(who.Account.Organisation) {
		return none, "bad_subject", connector.Fail(connector.CodeProviderContract, "the provider's id of the account is not text")
	}
	who.Account.Login = clean(who.Account.Login)
	c.Account, c.Notes = who.Account, who.Notes
	if who.Scopes != nil {
		c.Scopes = slices.Clone(who.Scopes)
	}
	var visible []string
	for _, r := range who.Resources {
		visible = append(visible, r.ID)
	}
	c.Resources = visible
	if t.wanted != nil {
		if missing := without(t.wanted, visible); len(missing) > 0 {
			return none, "resource_not_visible", connector.Fail(connector.CodePermissionDenied, "the account does not see every resource that was asked for")
		}
		c.Resources = slices.Clone(t.wanted)
	}
	for range 5 {
		id, authz, err := s.storeConnection(ctx, t, p, c, a, pending)
		switch {
		case err == nil:
			c.ID, c.AuthzVersion = id, authz
			return c, "", nil
		case errors.Is(err, errOtherAccount):
			return none, "other_account", connector.Fail(connector.CodeConflict, "this is another account than the one connected; the old connection is unchanged")
		case errors.Is(err, errMoved), store.IsUnique(err):
			continue // a refresh or another sign-in was first; look again
		}
		return none, "store", err
	}
	return none, "store", unavailable(time.Second, "the connection is being changed elsewhere")
}

// identify lends the fresh token for one call, also when the call panics.
func (s *Service) identify(ctx context.Context, c connector.Connection, access Secret, ask Identify) (connector.Identity, error) {
	s.lend(c, access)
	defer s.takeBack(c.ID)
	return ask(ctx, c)
}
