package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// An endpoint is a profile in use.
type endpoint struct {
	profile Profile
	limits  Limits
	places
	pool    pool            // reads
	once    *http.Transport // writes and exchanges: a connection each
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	noted   atomic.Int32 // state of the breaker that the log knows; zero is closed

	mu    sync.Mutex // guards the three below
	lanes map[laneKey]*lane
	swept time.Time
}

type laneKey struct {
	tenant     connector.TenantID
	connection connector.ConnectionID
}

func newEndpoint(p Profile, nat64 []netip.Prefix, resolver *net.Resolver) (*endpoint, error) {
	at, err := p.parse()
	if err != nil {
		return nil, err
	}
	e := &endpoint{profile: p, limits: p.Limits.filled(), places: at, lanes: map[laneKey]*lane{}, swept: time.Now()}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if len(p.Roots) > 0 {
		secure.RootCAs = x509.NewCertPool()
		secure.RootCAs.AppendCertsFromPEM(p.Roots)
	}
	dial := e.dialer(nat64, resolver)
	e.pool.fresh = func() *http.Transport {
		t := newHTTP(dial, secure, e.limits)
		e.tunnel(t)
		if p.HTTP2 {
			speakHTTP2(t, e.limits)
		}
		return t
	}
	e.once = newHTTP(dial, secure, e.limits)
	e.once.DisableKeepAlives = true
	e.tunnel(e.once)
	e.breaker = newBreaker(p.Name)
	return e, nil
}

// newHTTP has no proxy but the profile's, because a proxy hides the address
// that the guard checks. It speaks HTTP/1.1 alone: HTTP/2 has replays of its own
// and makes it unprovable whether a request was written.
func newHTTP(dial func(context.Context, string, string) (net.Conn, error), secure *tls.Config, l Limits) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        secure,
		Protocols:              protocols,
		TLSHandshakeTimeout:    l.TLS,
		ResponseHeaderTimeout:  l.ResponseHeader,
		MaxResponseHeaderBytes: l.HeaderBytes,
		IdleConnTimeout:        30 * time.Second, // below what servers keep
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    64,
		DisableCompression:     true, // see body.go: both forms of a body are counted
	}
}

const (
	// maxAge is how long a connection can stay in use after its host moved.
	maxAge = 5 * time.Minute
	// maxGap is how long a pool can be left alone. Its connections are idle for
	// 30 seconds at most, but that is by a clock that stands still while the
	// machine is suspended, when the other side goes on and closes them.
	maxGap = time.Minute
)

// A pool replaces its http.Transport when that has grown old. Connections that
// are busy then finish and are not kept.
type pool struct {
	fresh func() *http.Transport

	mu      sync.Mutex // guards the three below
	current *http.Transport
	born    time.Time // wall clock, and so is used
	used    time.Time
}

func (p *pool) get() *http.Transport {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now().Round(0) // under the lock, or a late caller's would lie before used
	age, gap := now.Sub(p.born), now.Sub(p.used)
	if p.current == nil || age > maxAge || age < 0 || gap > maxGap || gap < 0 {
		p.drop()
		p.current, p.born = p.fresh(), now
	}
	p.used = now
	return p.current
}

func (p *pool) drop() {
	if p.current != nil {
		p.current.CloseIdleConnections()
	}
}

func (e *endpoint) close() {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	e.pool.drop()
}

// lane finds what the calls of one connection share. Lanes that nobody used
// for a while are forgotten; theirs would be full tokens anyway.
func (e *endpoint) lane(conn connector.Connection) *lane {
	key := laneKey{conn.Tenant, conn.ID}
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.swept) > 10*time.Minute {
		for k, l := range e.lanes {
			if l.idleSince(now) > 10*time.Minute {
				delete(e.lanes, k)
			}
		}
		e.swept = now
	}
	l := e.lanes[key]
	if l == nil {
		l = newLane(e.limits)
		l.routes.prefix = keyPrefix(conn)
		e.lanes[key] = l
	}
	l.touch(now)
	return l
}
