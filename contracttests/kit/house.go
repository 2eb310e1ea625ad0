package contracttests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/store"
)

const profileName = "contract"

// house is a whole installation around one connector, in front of one provider.
type house struct {
	subject Subject
	org     Org // nil: none
	facts   Facts
	proxy   *fault.Proxy // nil: the provider can't be proxied

	dir         string
	db          *store.DB
	ledger      *operations.Ledger
	credentials *credentials.Service
	codec       *cursors.Codec
	audit       *operations.AuditLog
	exchange    *lateExchanger
	profile     *movable
	log         *safeBuffer
	people      []*person
	desk        *desk // of the check that runs
}

// person is somebody with a connection.
type person struct {
	Person
	caller     connector.Caller
	connection connector.Connection
}

// lateExchanger closes the circle between credentials and transport, and lets
// each check have a transport of its own.
type lateExchanger struct {
	mu sync.Mutex
	t  *transport.Transport
}

func (l *lateExchanger) Exchange(ctx context.Context, profile string, r transport.Exchange) (connector.Response, error) {
	l.mu.Lock()
	t := l.t
	l.mu.Unlock()
	return t.Exchange(ctx, profile, r)
}

// movable is an endpoint profile whose base URL a check can move.
type movable struct {
	mu      sync.Mutex
	profile transport.Profile
}

func (m *movable) Profile(string) (transport.Profile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.profile, nil
}

func (m *movable) set(p transport.Profile) (old transport.Profile) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, m.profile = m.profile, p
	return old
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// openHouse builds the installation. Org may be nil: then nobody is connected.
func openHouse(ctx context.Context, s Subject, org Org) (h *house, err error) {
	h = &house{subject: s, org: org, log: &safeBuffer{}, exchange: &lateExchanger{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if h.dir, err = os.MkdirTemp("", "contract-"); err != nil {
		return h, err
	}
	h.db, err = store.Open(ctx, store.Config{URL: "sqlite:" + filepath.Join(h.dir, "contract.db"), Migrations: []store.Migrations{credentials.Migrations(), operations.Migrations()}})
	if err != nil {
		return h, err
	}
	secret, err := keys.Generate()
	if err != nil {
		return h, err
	}
	ring, err := keys.Parse(secret)
	if err != nil {
		return h, err
	}
	if h.ledger, err = operations.New(operations.Config{DB: h.db, Keys: ring, Audit: true}); err != nil {
		return h, err
	}
	if h.audit, err = operations.NewAuditLog(operations.AuditConfig{DB: h.db}); err != nil {
		return h, err
	}
	if h.codec, err = cursors.New(cursors.Config{Keys: ring}); err != nil {
		return h, err
	}
	if err := h.place(ctx); err != nil {
		return h, err
	}
	if org == nil {
		return h, nil
	}
	h.credentials, err = credentials.New(credentials.Config{DB: h.db, Keys: ring, Exchanger: h.exchange, Logger: h.logger(),
		Providers: []credentials.Provider{h.provider()},
		OnChange: func(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID) error {
			_, err := h.ledger.KillConnection(ctx, tx, tenant, id, "the connection changed")
			return err
		}})
	return h, err
}

func (h *house) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// place finds out where the provider is, and puts the proxy before it if it can
// be reached without TLS on this machine.
func (h *house) place(ctx context.Context) (err error) {
	if h.org == nil {
		return nil
	}
	h.facts = h.org.Facts()
	p := h.facts.Profile
	if p.BaseURL == "" {
		p = transport.Loopback(profileName, h.facts.URL)
	}
	if strings.HasPrefix(p.BaseURL, "http://") && p.Proxy == "" {
		u, err := url.Parse(p.BaseURL)
		if err != nil {
			return err
		}
		if h.proxy, err = fault.Start(context.WithoutCancel(ctx), "http://"+u.Host); err != nil {
			return err
		}
		p = transport.Loopback(profileName, h.proxy.URL()+u.Path)
	}
	p.Name = profileName
	p.Limits.Rate, p.Limits.Burst, p.Limits.Concurrency, p.Limits.Queue = 1e6, 1e6, 64, 4096
	h.profile = &movable{profile: p}
	return nil
}

// provider is our registration, its token endpoint behind the proxy.
func (h *house) provider() credentials.Provider {
	p := credentials.Provider{Kind: credentials.KindStatic, Method: credentials.AuthNone}
	if h.facts.OAuth != nil {
		p = *h.facts.OAuth
	}
	p.ID, p.Profile, p.Scopes = h.subject.Connector.Provider, profileName, h.subject.Connector.Auth.Scopes
	if h.proxy != nil {
		for _, u := range []*string{&p.TokenURL, &p.RevocationURL} {
			if rest, ok := strings.CutPrefix(*u, h.facts.URL); ok {
				*u = h.proxy.URL() + rest
			}
		}
	}
	return p
}

// connect makes a connection for a person. Nil scopes: the connector's.
func (h *house) connect(ctx context.Context, who Person, principal string, scopes []string) (*person, error) {
	p := &person{Person: who, caller: connector.Caller{Tenant: connector.TenantID(who.Tenant), Principal: connector.PrincipalID(principal), Run: "contract"}}
	var err error
	provider := h.subject.Connector.Provider
	if who.Login == nil {
		p.connection, err = h.credentials.Setup(ctx, p.caller, credentials.SetupRequest{Provider: provider, Scopes: scopes, Key: credentials.NewSecret(who.Key)}, h.desk.runtime.Identify)
		return p, err
	}
	const browser = "the browser of the contract kit"
	begun, err := h.credentials.Begin(ctx, p.caller, credentials.BeginRequest{Provider: provider, Scopes: scopes,
		RedirectURI: redirect, BrowserKey: browser})
	if err != nil {
		return p, err
	}
	back, err := who.Login(ctx, begun.URL)
	if err != nil {
		return p, fmt.Errorf("the sign-in pages could not be walked: %w", err)
	}
	p.connection, err = h.credentials.Finish(ctx, p.caller, browser, back.Query(), h.desk.runtime.Identify)
	return p, err
}

// redirect is never opened: a person's Login returns it.
const redirect = "http://127.0.0.1:1/callback"

func (h *house) close() error {
	var errs []error
	if h.desk != nil {
		h.desk.close()
	}
	if h.credentials != nil {
		h.credentials.Close()
	}
	if h.proxy != nil {
		errs = append(errs, h.proxy.Close())
	}
	if h.audit != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		errs = append(errs, h.audit.Close(ctx))
		cancel()
	}
	if h.db != nil {
		errs = append(errs, h.db.Close())
	}
	if h.dir != "" {
		errs = append(errs, os.RemoveAll(h.dir))
	}
	return errors.Join(errs...)
}

// desk is what one check works with: a transport without memory of the check
// before, and a runtime on it.
type desk struct {
	runtime   *connector.Runtime
	transport *transport.Transport
	ledger    *clocked
	answers   *answers
}

// newDesk replaces the desk of the check before and clears its faults.
func (h *house) newDesk() error {
	if h.desk != nil {
		h.desk.close()
	}
	if h.proxy != nil {
		h.proxy.Clear()
	}
	d := &desk{ledger: &clocked{Operations: h.ledger}}
	var held transport.Credentials = h.credentials
	if wrap := h.subject.Parts.Credentials; wrap != nil {
		held = wrap(held)
	}
	var err error
	if d.transport, err = transport.New(transport.Config{Profiles: h.profile, Credentials: held, Logger: h.logger()}); err != nil {
		return err
	}
	h.exchange.mu.Lock()
	h.exchange.t = d.transport
	h.exchange.mu.Unlock()
	d.answers = &answers{Transport: d.transport}
	c := connector.Config{
		Connectors: []connector.Connector{h.subject.Connector}, Policy: host.Local{}, Consent: host.Local{},
		Connections: h.credentials, Transport: d.answers, Cursors: h.codec, Operations: h.ledger, Auditor: h.audit,
		Logger: h.logger(), WriteTimeout: 10 * time.Second,
	}
	if wrap := h.subject.Parts.Runtime; wrap != nil {
		at, _ := h.profile.Profile("")
		wrap(&c, at, held)
	}
	d.ledger.Operations, c.Operations = c.Operations, d.ledger
	if d.runtime, err = connector.New(c); err != nil {
		d.transport.Close()
		return err
	}
	h.desk = d
	return nil
}

func (d *desk) close() {
	d.runtime.Close()
	d.transport.Close()
}

// clocked is a ledger whose look-ups believe that more time has passed since the
// dispatch than did.
type clocked struct {
	connector.Operations
	mu     sync.Mutex
	passed time.Duration
}

func (c *clocked) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed = d
}

func (c *clocked) Look(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (connector.Claim, error) {
	claim, err := c.Operations.Look(ctx, tenant, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	claim.DispatchedAt = claim.DispatchedAt.Add(-c.passed)
	return claim, err
}

// answers remembers the last document that came, so that a check can have it
// again with something changed.
type answers struct {
	connector.Transport
	mu   sync.Mutex
	last connector.Response
}

func (a *answers) Do(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	resp, err := a.Transport.Do(ctx, c, class, r)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = resp
	return resp, err
}

func (a *answers) body() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last.Body
}
