// Package fault stands between an HTTP client and a real server and breaks chosen exchanges.
//
// A [Proxy] is a reverse proxy on the loopback interface. It copies requests and answers
// as they are (the Host header included, no forwarding headers added) until a [Rule] says
// otherwise: then it loses the answer after the upstream has committed, cuts a body in
// half, holds a request back, sends it twice, or answers in the upstream's name. Every
// request is recorded, so that a test can tell what reached the upstream from what the
// client was told.
//
// Rules are taken in the order in which they were given; the first that matches and is not
// spent acts. With one client at a time the outcome is fully determined; nothing here is
// random and nothing depends on the clock unless a rule sets Delay.
//
// It speaks HTTP/1.1, with TLS on both sides if the upstream has it: see [StartTLS]. Messages are framed anew with a Content-Length, header
// names are canonicalised, trailers and informational answers are dropped, and each
// forwarded request has an upstream connection of its own, because a transport that
// re-sends on a stale connection would add requests that no client made.
package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
)

// A Proxy breaks exchanges by rule. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	upstream string // host:port
	base     *url.URL
	secure   *secure         // nil: plain HTTP on both sides
	ctx      context.Context // ended by Close; holds and upstream calls hang on it
	stop     context.CancelFunc
	detach   func() bool // unhooks shut from the end of ctx
	wait     sync.WaitGroup

	mu      sync.Mutex
	rules   []Rule
	seen    []*Exchange
	changed chan struct{} // closed and renewed at every change of seen
	conns   map[net.Conn]struct{}
	closed  bool
}

// Start listens on a free port of 127.0.0.1 and forwards to upstream, an http URL of
// scheme and host only. ctx ends the proxy like Close does, but only Close waits for it.
func Start(ctx context.Context, upstream string) (*Proxy, error) {
	address, err := origin(upstream, "http", "80")
	if err != nil {
		return nil, err
	}
	return start(ctx, address, nil)
}

// origin is the address of a URL of scheme and host only.
func origin(upstream, scheme, port string) (address string, err error) {
	u, err := url.Parse(upstream)
	if err != nil {
		return "", errors.New("fault: upstream is not a URL")
	}
	if u.Scheme != scheme || u.Host == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return "", fmt.Errorf("fault: upstream must be %s://host:port and nothing more", scheme)
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), port), nil
	}
	return u.Host, nil
}

func start(ctx context.Context, address string, s *secure) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fault: %w", err)
	}
	p := &Proxy{
		listener: l,
		upstream: address,
		base:     &url.URL{Scheme: "http", Host: l.Addr().String()},
		secure:   s,
		changed:  make(chan struct{}),
		conns:    make(map[net.Conn]struct{}),
	}
	if s != nil {
		p.base.Scheme = "https"
	}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.detach = context.AfterFunc(p.ctx, p.shut)
	p.wait.Add(1)
	go p.accept()
	return p, nil
}

// URL returns the proxy's own address, without a trailing slash.
func (p *Proxy) URL() string { return p.base.String() }

// Next appends a rule behind those that are not spent yet.
func (p *Proxy) Next(r Rule) {
	if r.Times == 0 {
		r.Times = 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
}

// Clear drops all rules. Exchanges that a rule already acts on are not changed.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Unspent returns how many rules still wait for a match, Forever ones included. A test
// that ends with one did not test what it meant to.
func (p *Proxy) Unspent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rules)
}

// Close cuts every connection, gives up held requests without forwarding them, and waits
// until nothing runs any more. Calling it again does nothing.
func (p *Proxy) Close() error {
	p.shut()
	p.wait.Wait()
	return nil
}

func (p *Proxy) shut() {
	p.detach()
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	_ = p.listener.Close()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) accept() {
	defer p.wait.Done()
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.keep(conn) {
			_ = conn.Close()
			return
		}
		p.wait.Add(1)
		go func() {
			defer p.wait.Done()
			defer p.drop(conn)
			if p.secure != nil {
				p.serve(tls.Server(conn, p.secure.server))
			} else {
				p.serve(conn)
			}
		}()
	}
}

// keep remembers a connection for shut; false says that shut has been here already.
func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) drop(conn net.Conn) {
	p.mu.Lock()
	delete(p.conns, conn)
	p.mu.Unlock()
	_ = conn.Close()
}
