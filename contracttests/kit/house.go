package kit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/store"
)

// house is the product around one subject: what package host puts together,
// with a connector that host need not know and a fault proxy on the wire.
type house struct {
	connector connector.Connector
	parts     func(*connector.Config)
	provider  Provider
	facts     Facts
	proxy     *fault.Proxy   // where faults are
	prefix    string         // of the API's paths, behind its host
	quiet     []*fault.Proxy // before token endpoints

	db          *store.DB
	codec       connector.Cursors
	ledger      *operations.Ledger
	credentials *credentials.Service
	exchange    *lateExchanger
	transport   *transport.Transport
	tap         *tap
	runtime     *connector.Runtime
	profile     *profile
	logs        *logs
}

// lateExchanger breaks the ring: credentials need a transport, which needs
// credentials.
type lateExchanger struct{ *transport.Transport }

// profile is the endpoint, which a check may close for a while.
type profile struct {
	mu sync.Mutex
	p  transport.Profile
}

func (p *profile) Profile(string) (transport.Profile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.p, nil
}

func (p *profile) move(baseURL string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.p.BaseURL = baseURL
	p.p.Private = append(slices.Clone(p.p.Private), transport.Loopback("", baseURL).Private...)
}

func openHouse(ctx context.Context, s Subject, dir string, seed int64) (h *house, err error) {
	h = &house{connector: s.Connector, parts: s.Parts, logs: &logs{}, exchange: &lateExchanger{}}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.provider, err = s.Harness.Start(ctx, filepath.Join(dir, "provider"), seed); err != nil {
		return h, err
	}
	h.facts = h.provider.Facts()
	sign := h.facts.SignIn
	sign.ID, sign.Profile, sign.Scopes = s.Connector.Provider, s.Connector.Provider, s.Connector.Auth.Scopes
	if sign.Issuer == "" {
		sign.Issuer = h.facts.URL
	}
	p, err := h.front(ctx, s.Connector.Provider, &sign)
	if err != nil {
		return h, err
	}
	if h.db, err = store.Open(ctx, store.Config{URL: "sqlite:" + filepath.Join(dir, "contract.db"),
		Migrations: []store.Migrations{credentials.Migrations(), operations.Migrations()}}); err != nil {
		return h, err
	}
	ring, err := keys.OpenFile(filepath.Join(dir, "keys.json"))
	if err != nil {
		return h, err
	}
	if h.ledger, err = operations.New(operations.Config{DB: h.db, Keys: ring}); err != nil {
		return h, err
	}
	if h.codec, err = cursors.New(cursors.Config{Keys: ring}); err != nil {
		return h, err
	}
	h.credentials, err = credentials.New(credentials.Config{DB: h.db, Keys: ring, Exchanger: h.exchange,
		Providers: []credentials.Provider{sign}, Logger: slog.New(slog.NewJSONHandler(h.logs, nil)),
		OnChange: func(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID) error {
			_, err := h.ledger.KillConnection(ctx, tx, tenant, id, "the connection changed")
			return err
		}})
	if err != nil {
		return h, err
	}
	p.Limits = transport.Limits{Rate: 1e6, Burst: 1e6, Concurrency: 64, Queue: 4096}
	h.profile = &profile{p: p}
	return h, h.fresh()
}

// fresh puts a new transport and runtime over the same books, so that what one
// check did to breakers, cool-downs and caches is not the next one's.
func (h *house) fresh() (err error) {
	h.rest()
	h.proxy.Clear()
	h.profile.move(h.base())
	h.transport, err = transport.New(transport.Config{Profiles: h.profile, Credentials: h.credentials})
	if err != nil {
		return err
	}
	h.exchange.Transport = h.transport
	h.tap = &tap{transport: h.transport}
	c := connector.Config{
		Connectors: []connector.Connector{h.connector}, Policy: allowed{}, Consent: allowed{}, Connections: h.credentials,
		Transport: h.tap, Cursors: h.codec, Operations: h.ledger, Auditor: unread{},
		Logger: slog.New(slog.NewJSONHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if h.parts != nil {
		h.parts(&c)
	}
	h.runtime, err = connector.New(c)
	return err
}

func (h *house) rest() {
	if h.runtime != nil {
		h.runtime.Close()
		h.runtime = nil
	}
	if h.transport != nil {
		h.transport.Close()
		h.transport = nil
	}
}

func (h *house) close() error {
	h.rest()
	if h.credentials != nil {
		h.credentials.Close()
	}
	var errs []error
	if h.db != nil {
		errs = append(errs, h.db.Close())
	}
	if h.proxy != nil {
		errs = append(errs, h.proxy.Close())
	}
	for _, p := range h.quiet {
		errs = append(errs, p.Close())
	}
	if h.provider != nil {
		errs = append(errs, h.provider.Close())
	}
	return errors.Join(errs...)
}

// allowed is a host where every tool is switched on: what a policy refuses never
// reaches a connector.
type allowed struct{}

func (allowed) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	return connector.Decision{Allow: true}, nil
}

func (allowed) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return true, nil
}

// unread is an audit log that nobody asks: the checks ask the provider.
type unread struct{}

func (unread) Record(context.Context, connector.AuditRecord) error { return nil }

// logs is what operators would read.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
