package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what to start. The zero value is a complete sandbox on a free
// loopback port.
type Config struct {
	// Addr is the listen address of Start. Empty means 127.0.0.1:0.
	Addr string
	// Seed fixes the default data, passwords and client secrets: the same seed
	// gives the same ones. Tokens and the admin token are always random.
	Seed int64
	// AccessTokenTTL is the lifetime of access tokens. Zero means 10 minutes.
	AccessTokenTTL time.Duration
	// RefreshTokenTTL is the lifetime of one refresh token. Zero means no end.
	RefreshTokenTTL time.Duration
	// Tickets is the number of seeded tickets. Zero means 60; the hand-written
	// ones are always there, so a smaller number has no effect below them.
	Tickets int
	// BaseURL is the public URL, without a trailing slash, if it is not
	// http://ADDR. It is also the issuer.
	BaseURL string
	// WebhookNetworks are targets allowed beside loopback (a container's host).
	WebhookNetworks []netip.Prefix
}

// Server is a running sandbox. All methods are safe for concurrent use.
type Server struct {
	cfg        Config
	base       string
	adminToken string
	handler    http.Handler

	world   world
	auth    authority
	hooks   hooks
	capture capture
	rules   atomic.Pointer[program]
	limits  limiter
	secrets canaries

	ctx      context.Context // ends when Close is called; stops delays and deliveries
	stop     context.CancelFunc
	inflight gate
	requests atomic.Uint64
	http     *http.Server
	served   chan struct{}
	closing  sync.Once
}

// gate counts handlers and can be shut. A WaitGroup would race here: a request
// that was just read may start while Close already waits.
type gate struct {
	mu     sync.Mutex
	n      int
	shut   bool
	leaves sync.Cond
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.n++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	g.n--
	g.mu.Unlock()
	g.leaves.Broadcast()
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut = true; g.n > 0; {
		g.leaves.Wait()
	}
}

// New makes a sandbox without a listener, for mounting its Handler elsewhere
// (a test server, an in-memory connection). BaseURL is required.
func New(cfg Config) (*Server, error) {
	if cfg.AccessTokenTTL < 0 || cfg.RefreshTokenTTL < 0 || cfg.Tickets < 0 {
		return nil, errors.New("sandbox: negative lifetime or ticket count")
	}
	if cfg.AccessTokenTTL == 0 {
		cfg.AccessTokenTTL = 10 * time.Minute
	}
	if cfg.Tickets == 0 {
		cfg.Tickets = 60
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Host == "" || base.RawQuery != "" || base.Fragment != "" ||
		(base.Scheme != "http" && base.Scheme != "https") || strings.HasSuffix(cfg.BaseURL, "/") {
		return nil, errors.New("sandbox: base URL must be http(s)://host[/path] without a trailing slash")
	}
	s := &Server{cfg: cfg, base: cfg.BaseURL, adminToken: randomToken("adm_")}
	s.inflight.leaves.L = &s.inflight.mu
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.secrets.add(s.adminToken)
	s.auth.init(s)
	s.world.init(s)
	s.hooks.init(s)
	s.capture.init()
	s.handler = s.routes(base.Path)
	return s, nil
}

// Start listens on cfg.Addr and serves until Close. The context covers the
// start only. The address may name port 0; URL tells the real one.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	addr := cfg.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("sandbox: listen: %w", err)
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = "http://" + l.Addr().String()
	}
	s, err := New(cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	// HTTP/1.1 without TLS: the socket-level effects need a connection that
	// belongs to one request.
	s.http = &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: discardLog}
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		s.http.Serve(l) // ends with ErrServerClosed in Close
	}()
	return s, nil
}

// Close stops listening, cuts open connections and waits for every handler and
// delivery. It may be called more than once.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.stop()
		if s.http != nil {
			s.http.Close()
			<-s.served
		}
		s.inflight.close()
		s.hooks.wait()
	})
	return nil
}

// URL is the base of every route, without a trailing slash.
func (s *Server) URL() string { return s.base }

// Issuer is the authorization server's identifier (RFC 8414), equal to URL.
func (s *Server) Issuer() string { return s.base }

// AdminToken is the bearer of the /admin routes.
func (s *Server) AdminToken() string { return s.adminToken }

// Handler serves every route. Socket-level effects fall back to aborting the
// response where the connection can't be taken over.
func (s *Server) Handler() http.Handler { return s.handler }

// Reset restores the default data and access lists, forgets tokens, sessions,
// subscriptions, behaviour, ledger and captured requests. Clients, passwords and
// the admin token stay.
func (s *Server) Reset() {
	s.rules.Store(nil)
	s.hooks.reset()
	s.auth.reset()
	s.world.reset()
	s.capture.reset()
	s.limits.reset()
}

// randomToken has 160 bits, enough that no test guesses one by accident.
func randomToken(prefix string) string {
	var b [20]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// canaries collects every secret the sandbox ever gave out.
type canaries struct {
	mu   sync.Mutex
	seen map[string]struct{}
	list []string
}

func (c *canaries) add(secrets ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = make(map[string]struct{})
	}
	for _, v := range secrets {
		if _, dup := c.seen[v]; dup || v == "" {
			continue
		}
		c.seen[v] = struct{}{}
		c.list = append(c.list, v)
	}
}

// Canaries returns every planted or issued secret so far: private notes,
// personal contact fields, passwords, client secrets, codes, tokens, webhook
// secrets, session cookies. None may appear in clear in results, logs or
// databases of the code under test.
func (s *Server) Canaries() []string {
	s.secrets.mu.Lock()
	defer s.secrets.mu.Unlock()
	return append([]string(nil), s.secrets.list...)
}
