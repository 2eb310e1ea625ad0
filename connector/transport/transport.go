package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Config is what a Transport is made of.
type Config struct {
	Profiles Profiles // mandatory
	// Credentials may be nil for a Transport that is used for Exchange alone;
	// Do is CONNECTION_REQUIRED then.
	Credentials Credentials
	Logger      *slog.Logger // nil: discard
	Observer    Observer     // nil: nobody is told
	// NAT64 are the operator's own translation prefixes, /96 each, in which an
	// IPv6 address means an IPv4 one (RFC 6052). Empty: none; the well-known
	// prefix is always refused.
	NAT64 []netip.Prefix
	// Cooldowns are what other processes share; nil: this process alone.
	Cooldowns Cooldowns
	// CacheBytes and CacheEntries bound the answers that are kept for
	// [connector.Request.Cacheable]. Zero: 16 MiB and 1024; negative: refused.
	CacheBytes   int64
	CacheEntries int
}

// Credentials finds what authorizes the requests of a connection. It is asked
// before every single request and must be safe for concurrent use. Rejected is
// the version that the provider refused with 401, or 0: another version is due
// then, or an error that says why there is none.
type Credentials interface {
	Authorize(ctx context.Context, c connector.Connection, rejected int64) (Credential, error)
}

// A Credential authorizes requests. Apply sets the header on a copy that is
// about to be sent and keeps no reference to it. Versions start at 1.
type Credential interface {
	Apply(r *http.Request) error
	Version() int64
}

// A Transport is the connector.Transport of every connection. It is safe for
// concurrent use.
type Transport struct {
	profiles    Profiles
	credentials Credentials
	log         *slog.Logger
	observer    Observer // may be nil
	nat64       []netip.Prefix
	resolver    *net.Resolver // nil: the system's; tests bring name servers
	cooldowns   Cooldowns
	cache       *cache
	firstWait   time.Duration // ceiling of the first wait before a retry

	mu        sync.Mutex // guards the two below
	endpoints map[string]*endpoint
	closed    bool
}

var _ connector.Transport = (*Transport)(nil)

// New checks the configuration. Profiles are checked when they are first used.
func New(c Config) (*Transport, error) {
	if c.Profiles == nil {
		return nil, errors.New("a transport without profiles can't reach anything")
	}
	for _, p := range c.NAT64 {
		if !p.IsValid() || p.Addr().Is4() || p.Bits() != 96 {
			return nil, errors.New("a NAT64 prefix is not an IPv6 /96")
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.CacheBytes < 0 || c.CacheEntries < 0 {
		return nil, errors.New("a bound of the cache is negative")
	}
	fill(&c.CacheBytes, defaultCacheBytes)
	fill(&c.CacheEntries, defaultCacheEntries)
	if c.Cooldowns == nil {
		c.Cooldowns = new(InProcess)
	}
	return &Transport{
		cooldowns: c.Cooldowns, cache: newCache(c.CacheBytes, c.CacheEntries),
		profiles: c.Profiles, credentials: c.Credentials, log: c.Logger, observer: c.Observer, nat64: slices.Clone(c.NAT64),
		firstWait: firstWait, endpoints: map[string]*endpoint{},
	}, nil
}

// Close drops idle connections and refuses further calls. Calls in progress
// end by themselves, and their connections with them.
func (t *Transport) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, e := range t.endpoints {
		e.close()
	}
}

// Forget drops what is kept of a connection's answers. It is for connections
// that end: those that change are noticed by their AuthzVersion.
func (t *Transport) Forget(tenant connector.TenantID, connection connector.ConnectionID) {
	t.cache.forget(tenant, connection)
}

// endpoint finds the live form of a profile, and builds it anew, with empty
// pools and counters, when the administrator changed it.
func (t *Transport) endpoint(name string) (*endpoint, error) {
	p, err := t.profiles.Profile(name)
	if err != nil {
		return nil, err
	}
	if p.Name == "" {
		p.Name = name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, connector.Fail(connector.CodeUnavailable, "the transport is closed")
	}
	old := t.endpoints[name]
	if old != nil && old.profile.equal(p) {
		return old, nil
	}
	fresh, err := newEndpoint(p, t.nat64, t.resolver)
	if err != nil {
		return nil, &connector.Error{Code: connector.CodeEgressBlocked, Message: "the endpoint profile is not valid", Err: err}
	}
	if old != nil {
		old.close()
	}
	t.endpoints[name] = fresh
	return fresh, nil
}

// Do performs one read or write for a connection. See the package
// documentation for what an error means; for a write its Effect says whether
// anything can have reached the provider. Attempts is filled in both cases.
func (t *Transport) Do(ctx context.Context, conn connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	resp, err := t.do(ctx, conn, class, r)
	t.called(ctx, conn, class, r, resp, err)
	return resp, err
}

func (t *Transport) do(ctx context.Context, conn connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	c, err := t.prepare(conn, class, r)
	if err != nil {
		return connector.Response{}, refuse(err, class == connector.ClassWrite)
	}
	limit := c.ep.limits.Read
	if c.write {
		limit = c.ep.limits.Write
	}
	caller := ctx
	if d, ok := ctx.Deadline(); !ok || time.Until(d) > limit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if c.wait, err = c.lane.enter(ctx); err != nil {
		return connector.Response{}, refuse(err, c.write)
	}
	defer c.lane.leave()
	report, err := c.ep.allow(c.write)
	if err != nil {
		return connector.Response{}, refuse(err, c.write)
	}
	health := errSilent // what a panic below says as well
	defer func() { report(health) }()
	resp, err := c.run(ctx)
	health = verdict(caller, resp, err)
	return resp, err
}

func (t *Transport) prepare(conn connector.Connection, class connector.Class, r connector.Request) (*call, error) {
	if t.credentials == nil {
		return nil, connector.Fail(connector.CodeConnectionRequired, "this transport has no credentials")
	}
	ep, err := t.endpoint(conn.Profile)
	if err != nil {
		return nil, err
	}
	c := &call{t: t, ep: ep, conn: conn, write: class == connector.ClassWrite}
	if err := c.take(class, r); err != nil {
		return nil, err
	}
	c.lane = ep.lane(conn)
	c.route = c.lane.routes.find(c.write, r.Path)
	return c, nil
}
