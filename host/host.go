package host

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/manifest"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/connector/transport/profiles"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/quotas"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/telemetry"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/webhooks"
	"github.com/drawbridge-dev/drawbridge/webhooks/followups"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
	"github.com/drawbridge-dev/drawbridge/webhooks/notices"
	"github.com/drawbridge-dev/drawbridge/webhooks/subscriptions"
)

// Config says what to open.
type Config struct {
	Data      string // folder of the key ring, and of the database if there is no URL
	Database  string // database URL; empty: SQLite in Data
	Instances []Instance
	Mounts    []Mount              // connectors of the caller's own
	Profiles  profiles.File        // the administrator's, which instances may name
	Keys      *keys.Ring           // nil: the one in Data, made when it is not there
	Policy    connector.Policy     // required
	Consent   connector.Consent    // required
	Logger    *slog.Logger         // nil discards
	Telemetry *telemetry.Telemetry // nil: nothing is measured
	FollowUps []followups.FollowUp // reads that changes of tickets lead to
	// WatchEvery is how long watchers take to hear of another process's changes. Zero:
	// 2 seconds.
	WatchEvery time.Duration
	// Migrations are of what stands on a host and keeps its tables in the same
	// database, such as pages.
	Migrations []store.Migrations
}

// A Host is everything that runs calls. It is safe for concurrent use.
type Host struct {
	Credentials *credentials.Service
	Ledger      *operations.Ledger
	Audit       *operations.AuditLog
	Keys        *keys.Ring
	Signer      *keys.Signer // of exported receipts
	DB          *store.DB
	Webhooks    *webhooks.Service
	Mirror      *mirror.Mirror // what connections that have an address for events see
	// Subscriptions have providers post events to endpoints.
	Subscriptions *subscriptions.Service
	notices       *notices.Log
	followups     *followups.Service

	data      string // folder
	cooldowns *quotas.Cooldowns
	transport *transport.Transport
	runtimes  map[string]*connector.Runtime // by provider
	// inventories list what there is, for reconciliation; no caller sees them.
	inventories map[string]*connector.Runtime
	// subscribing makes and lists subscriptions; no caller sees it either.
	subscribing map[string]*connector.Runtime
	reading     map[string]followups.Provider // what follow-ups can reach
	ways        map[string]subscriptions.Ways
	schemes     map[string]string // how each provider signs its webhooks
	manifests   []manifest.Manifest
	ports       []uint16
	log         *slog.Logger
}

// Open opens the database and the key ring, both made when they are not there,
// and checks every part. The context covers opening only.
func Open(ctx context.Context, c Config) (*Host, error) {
	h := &Host{data: c.Data, runtimes: map[string]*connector.Runtime{}, inventories: map[string]*connector.Runtime{},
		subscribing: map[string]*connector.Runtime{}, reading: map[string]followups.Provider{}, ways: map[string]subscriptions.Ways{}, schemes: map[string]string{}, log: c.Logger}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if err := h.open(ctx, c); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Host) open(ctx context.Context, c Config) (err error) {
	if c.Policy == nil || c.Consent == nil {
		return errors.New("host: a policy and a consent are required")
	}
	url := c.Database
	if url == "" {
		url = filepath.Join(c.Data, databaseFile)
	}
	h.DB, err = store.Open(ctx, store.Config{URL: url,
		Migrations: append([]store.Migrations{credentials.Migrations(), operations.Migrations(), quotas.Migrations(),
			webhooks.Migrations(), inbox.Migrations(), mirror.Migrations(), notices.Migrations(), subscriptions.Migrations()}, c.Migrations...)})
	if err != nil {
		return err
	}
	if h.Keys = c.Keys; h.Keys == nil {
		if h.Keys, err = keys.OpenFile(filepath.Join(c.Data, keysFile)); err != nil {
			return err
		}
	}
	if h.Signer, err = keys.OpenSigner(filepath.Join(c.Data, signingFile)); err != nil {
		return err
	}
	if h.Ledger, err = operations.New(operations.Config{DB: h.DB, Keys: h.Keys, Signer: h.Signer, Audit: true}); err != nil {
		return err
	}
	if h.Audit, err = operations.NewAuditLog(operations.AuditConfig{DB: h.DB, Logger: h.log}); err != nil {
		return err
	}
	if h.cooldowns, err = quotas.New(quotas.Config{DB: h.DB}); err != nil {
		return err
	}
	codec, err := cursors.New(cursors.Config{Keys: h.Keys})
	if err != nil {
		return err
	}
	mounts, err := h.mounts(c)
	if err != nil {
		return err
	}
	if err := h.openProviders(c, mounts); err != nil {
		return err
	}
	for _, mount := range mounts {
		name := mount.Connector.Provider
		m := manifest.Of(mount.Connector)
		m.EndpointProfile, m.Auth.CredentialStore = name, "vault"
		h.manifests = append(h.manifests, m)
		// One runtime a provider: every ticket system brings the same tool names.
		config := connector.Config{
			Connectors: []connector.Connector{mount.Connector}, Policy: c.Policy, Consent: c.Consent, Connections: h.Credentials,
			Transport: h.transport, Cursors: codec, Operations: h.Ledger, Auditor: h.Audit, Logger: h.log,
		}
		if c.Telemetry != nil { // a nil pointer in an interface is not nil
			config.Observer = c.Telemetry
		}
		r, err := connector.New(config)
		if err != nil {
			return err
		}
		h.runtimes[name] = r
		if mount.inventory != nil {
			config.Connectors = []connector.Connector{*mount.inventory}
			if r, err = connector.New(config); err != nil {
				return err
			}
			h.inventories[name] = r
		}
		if mount.subscribing != nil {
			config.Connectors = []connector.Connector{*mount.subscribing}
			if r, err = connector.New(config); err != nil {
				return err
			}
			h.subscribing[name] = r
		}
		if reads, ok := followups.Reads(mount.Connector); ok {
			config.Connectors = []connector.Connector{reads}
			if r, err = connector.New(config); err != nil {
				return err
			}
			h.reading[name] = followups.Provider{Connector: mount.Connector, Runtime: r}
		}
	}
	return h.openHooks(c)
}

// openProviders joins credentials and transport, which need each other: the
// transport asks credentials for tokens, and credentials reach token endpoints
// through the transport.
func (h *Host) openProviders(c Config, mounts []Mount) error {
	known := transport.Static{}
	var providers []credentials.Provider
	for _, m := range mounts {
		known[m.Connector.Provider] = m.Profile
		h.ports = append(h.ports, ports(m.Profile)...)
		providers = append(providers, m.SignIn)
	}
	exchange := &lateExchanger{}
	var err error
	h.Credentials, err = credentials.New(credentials.Config{
		DB: h.DB, Keys: h.Keys, Exchanger: exchange, Providers: providers, Logger: h.log,
		OnChange: func(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID) error {
			h.transport.Forget(tenant, id)
			_, err := h.Ledger.KillConnection(ctx, tx, tenant, id, "the connection changed")
			return err
		},
	})
	if err != nil {
		return err
	}
	config := transport.Config{Profiles: known, Credentials: h.Credentials, Logger: h.log, Cooldowns: h.cooldowns, NAT64: c.Profiles.NAT64}
	if c.Telemetry != nil {
		config.Observer = c.Telemetry
	}
	h.transport, err = transport.New(config)
	exchange.Transport = h.transport
	return err
}

// lateExchanger closes the circle between credentials and transport. It is set
// before either is used.
type lateExchanger struct{ *transport.Transport }

// Close waits for writes under way and for what is being written to disk.
func (h *Host) Close() error {
	for _, r := range h.runtimes {
		r.Close()
	}
	for _, r := range h.inventories {
		r.Close()
	}
	for _, r := range h.subscribing {
		r.Close()
	}
	for _, p := range h.reading {
		p.Runtime.Close()
	}
	var errs []error
	if h.Credentials != nil {
		h.Credentials.Close()
	}
	if h.transport != nil {
		h.transport.Close()
	}
	if h.Audit != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		errs = append(errs, h.Audit.Close(ctx))
		cancel()
	}
	if h.DB != nil {
		errs = append(errs, h.DB.Close())
	}
	return errors.Join(errs...)
}

// Runtime returns the runtime of a provider.
func (h *Host) Runtime(provider string) (*connector.Runtime, bool) {
	r, ok := h.runtimes[provider]
	return r, ok
}

// Ready reports why calls can't be run now, or nil: the database answers.
func (h *Host) Ready(ctx context.Context) error { return h.DB.Ping(ctx) }

// Manifests describe the connectors that are mounted, with the endpoint profile
// each runs under.
func (h *Host) Manifests() []manifest.Manifest { return slices.Clone(h.manifests) }

// Ports are the TCP ports that the endpoint profiles let requests go to.
func (h *Host) Ports() []uint16 { return slices.Clone(h.ports) }

// Providers lists the names of what is set up, sorted.
func (h *Host) Providers() []string {
	var names []string
	for name := range h.runtimes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Tick does the periodic work that is due now: approvals that expired, writes
// whose process died, look-ups of unknown outcomes, revocations that failed
// before, sign-ins nobody finished, reconciling what webhooks announce, and looking
// after subscriptions. It returns how many operations it looked up.
func (h *Host) Tick(ctx context.Context) (looked int, err error) {
	var errs []error
	if _, err := h.Ledger.Sweep(ctx); err != nil {
		errs = append(errs, err)
	}
	due, err := h.Ledger.Due(ctx, 0)
	errs = append(errs, err)
	for _, ref := range due {
		rec, err := h.Ledger.Get(ctx, ref.Tenant, ref.ID)
		if err == nil {
			_, err = h.Settle(ctx, rec)
		}
		// CONFLICT and OUTCOME_UNKNOWN: another process has it, or it is over.
		if code := connector.CodeOf(err); err != nil && code != connector.CodeConflict && code != connector.CodeOutcomeUnknown {
			errs = append(errs, err)
			continue
		}
		looked++
	}
	_, err = h.Credentials.PumpRevocations(ctx)
	errs = append(errs, err)
	errs = append(errs, h.Credentials.NoteUses(ctx))
	_, err = h.Credentials.Prune(ctx)
	errs = append(errs, err, h.Mirror.Tick(ctx), h.Subscriptions.Tick(ctx))
	_, err = h.cooldowns.Sweep(ctx)
	return looked, errors.Join(append(errs, err)...)
}

// Settle looks one unknown operation up at its provider now.
func (h *Host) Settle(ctx context.Context, rec connector.OperationRecord) (connector.OperationRecord, error) {
	r, ok := h.runtimes[rec.Provider]
	if rec.Tool == tickets.HookCreateTool || rec.Tool == tickets.HookRenewTool {
		r, ok = h.subscribing[rec.Provider]
	}
	if !ok {
		return rec, connector.Fail(connector.CodeConnectionRequired, "the provider of this operation is not set up here")
	}
	return r.Settle(ctx, rec.Tenant, rec.ID)
}

// Run calls Tick, and applies what webhooks announced, until the context ends.
// Faults are logged and tried again.
func (h *Host) Run(ctx context.Context, every time.Duration) {
	var hooks sync.WaitGroup
	hooks.Go(func() { h.Webhooks.Run(ctx) })
	defer hooks.Wait()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if _, err := h.Tick(ctx); err != nil && ctx.Err() == nil {
			h.log.Error("periodic work", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
