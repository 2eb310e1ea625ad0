package credentials

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A SetupRequest makes a connection for which nobody signs in. It comes from an
// operator's page or terminal, never from a tool: a key that passes a model is
// no secret any more.
type SetupRequest struct {
	Provider string
	// Scopes to ask for. Nil: the provider's usual ones.
	Scopes []string
	// Resources are the only containers that the connection may touch. Nil:
	// all that the account sees.
	Resources []string
	// Connection gets the new credential instead of a new one being made. The
	// account behind it must be the same.
	Connection connector.ConnectionID
	// Key of KindStatic, and when it ends (zero: not known).
	Key       Secret
	ExpiresAt time.Time
	// Installation of KindApp: its id at the provider.
	Installation string
}

// Setup obtains a credential (or takes the one of the request), reads the account
// behind it, and stores it as Finish does: same vault, same rule that nothing is
// connected after an error. Setting a static key again replaces it.
func (s *Service) Setup(ctx context.Context, caller connector.Caller, r SetupRequest, identify Identify) (connector.Connection, error) {
	var none connector.Connection
	if !s.enter() {
		return none, unavailable(0, "the service is stopping")
	}
	defer s.running.Done()
	if err := s.checkSetup(caller, r); err != nil {
		return none, err
	}
	p, t, err := s.prepare(ctx, caller, wish{r.Provider, r.Scopes, r.Resources, r.Connection})
	if err != nil {
		return none, err
	}
	// The record of a sign-in, whose state nobody learns.
	t.mode, t.browserHash = modeBrowser, hash(randomState())
	if err := s.open(ctx, t, hash(randomState())); err != nil {
		return none, storage(err)
	}
	if err := s.closeTransaction(ctx, t, "open", "consumed", ""); err != nil {
		return none, storage(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishPatience)
	defer cancel()
	c, code, err := s.setUp(ctx, p, t, r, identify)
	if err != nil {
		if cerr := s.closeTransaction(ctx, t, "consumed", "failed", code); cerr != nil {
			s.log.WarnContext(ctx, "result of a set-up was not stored", "transaction", t.id, "result", code)
		}
		return none, storage(err)
	}
	return c, nil
}

func (s *Service) checkSetup(caller connector.Caller, r SetupRequest) error {
	p := s.providers[r.Provider]
	bad := func(why string) error { return connector.Fail(connector.CodeInvalidInput, "%s", why) }
	switch {
	case caller.Tenant == "" || caller.Principal == "":
		return connector.Fail(connector.CodePermissionDenied, "a connection needs a signed-in principal")
	case p == nil:
		return connector.Fail(connector.CodeNotFound, "no such provider")
	case p.Kind == KindAuthorizationCode:
		return bad("a person signs in at this provider")
	case (p.Kind == KindStatic) == r.Key.IsZero():
		return bad("a key belongs to a provider of static keys, and only there")
	case (p.Kind == KindApp) == (r.Installation == ""):
		return bad("an installation belongs to a provider of apps, and only there")
	case !r.Key.IsZero() && !validToken(r.Key.reveal()):
		return bad("the key has characters that a header can not carry, or is too long")
	case r.Installation != "" && !validInstallation(r.Installation):
		return bad("the installation's id must be letters, digits, - and _")
	}
	return nil
}

// validInstallation keeps an id from being more than one part of a path.
func validInstallation(id string) bool {
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return len(id) <= 64
}

func (s *Service) setUp(ctx context.Context, p *Provider, t *transaction, r SetupRequest, identify Identify) (connector.Connection, string, error) {
	var none connector.Connection
	a, err := s.firstToken(ctx, p, t, r)
	if err != nil {
		return none, string(a.class), err
	}
	if err := signInFailure(a); err != nil {
		return none, string(a.class), err
	}
	return s.keepGrant(ctx, t, p, a, identify, nil)
}

func (s *Service) firstToken(ctx context.Context, p *Provider, t *transaction, r SetupRequest) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HTTPTimeout)
	defer cancel()
	if p.Kind != KindStatic {
		return s.mint(ctx, p, NewSecret(r.Installation), t.scopes)
	}
	now, err := s.clock.now(ctx)
	if err != nil {
		return answer{class: classNotSent}, storage(err)
	}
	g := &grant{access: r.Key}
	if !r.ExpiresAt.IsZero() {
		if g.lifetime = r.ExpiresAt.Sub(now); g.lifetime <= 0 {
			return answer{class: classRefused}, connector.Fail(connector.CodeInvalidInput, "the key has expired")
		}
	}
	return answer{class: classGranted, sentAt: now, grant: g}, nil
}
