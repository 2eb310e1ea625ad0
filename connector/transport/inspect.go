package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"time"
)

// Effective is l with the defaults filled in: what the transport works with.
func (l Limits) Effective() Limits { return l.filled() }

// An Inspection walks the way to the hosts of one profile step by step, for a
// person who wants to know where it breaks. Each step is the transport's own,
// with the same refusals; none of them carries a credential.
type Inspection struct {
	e        *endpoint
	resolver *net.Resolver
	nat64    []netip.Prefix
}

// Inspect opens a profile. NAT64 is as in [Config]; a nil resolver is the
// system's. The error is that of [Profile.Validate].
func Inspect(p Profile, nat64 []netip.Prefix, resolver *net.Resolver) (*Inspection, error) {
	e, err := newEndpoint(p, nat64, resolver)
	if err != nil {
		return nil, err
	}
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	return &Inspection{e, resolver, nat64}, nil
}

// A Place is one host and port that a profile names.
type Place struct {
	Role    string // base_url, auth_origin or proxy
	Scheme  string
	Host    string
	Port    uint16
	Proxied bool // reached through the profile's proxy, which resolves the name

	i     *Inspection
	guard *guard
}

// Places are the proxy, if there is one, the base URL and the further origins.
func (i *Inspection) Places() []Place {
	place := func(role string, o origin) Place {
		return Place{role, o.scheme, o.host, o.port, i.e.proxyURL != nil && role != "proxy", i, newGuard(o, i.e.profile.Private, i.nat64)}
	}
	var all []Place
	if i.e.proxyURL != nil {
		all = append(all, place("proxy", i.e.proxy))
	}
	all = append(all, place("base_url", i.e.base))
	for _, o := range i.e.auth {
		all = append(all, place("auth_origin", o))
	}
	return all
}

// Resolve looks the host's addresses up, as a dial would.
func (p Place) Resolve(ctx context.Context) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, p.i.e.limits.Dial)
	defer cancel()
	return p.i.resolver.LookupNetIP(ctx, "ip", p.Host)
}

// Judge says why the dial guard refuses an address of this place, or nil.
func (p Place) Judge(ctx context.Context, addr netip.Addr) error {
	network := "tcp6"
	if addr.Unmap().Is4() {
		network = "tcp4"
	}
	return p.guard.control(ctx, network, netip.AddrPortFrom(addr, p.Port).String(), nil)
}

// Dial connects to one address, under the guard and the profile's time.
func (p Place) Dial(ctx context.Context, addr netip.Addr) (net.Conn, error) {
	d := net.Dialer{Timeout: p.i.e.limits.Dial, ControlContext: p.guard.control}
	return d.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, p.Port).String())
}

// Handshake speaks TLS with the place over a connection. The state is what was
// seen, also when the certificate is refused.
func (p Place) Handshake(ctx context.Context, raw net.Conn) (tls.ConnectionState, error) {
	ctx, cancel := context.WithTimeout(ctx, p.i.e.limits.TLS)
	defer cancel()
	config := p.i.e.once.TLSClientConfig.Clone()
	config.ServerName = p.Host
	c := tls.Client(raw, config)
	err := c.HandshakeContext(ctx)
	return c.ConnectionState(), err
}

// Seen is what one request to the base path showed.
type Seen struct {
	Status int
	Date   time.Time            // by the server; zero: it did not say
	At     time.Time            // by us, in the middle of the exchange
	TLS    *tls.ConnectionState // nil over plain http
}

// Ask sends one GET of the base path with no credential in it, the way a write
// would go, and reads no body. The error's text is the transport's.
func (i *Inspection) Ask(ctx context.Context) (Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, i.e.limits.Exchange)
	defer cancel()
	var sent time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent = time.Now() }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.e.base.String()+cmp.Or(i.e.prefix, "/"), nil)
	if err != nil {
		return Seen{}, errors.New("the base URL can't be asked")
	}
	req.Header["User-Agent"] = userAgent
	resp, err := i.e.once.RoundTrip(req)
	if err != nil {
		return Seen{}, errors.New(describe(ctx, err))
	}
	resp.Body.Close()
	now := time.Now()
	s := Seen{Status: resp.StatusCode, At: sent.Add(now.Sub(sent) / 2), TLS: resp.TLS}
	s.Date, _ = http.ParseTime(resp.Header.Get("Date"))
	return s, nil
}

// String is the place's origin.
func (p Place) String() string {
	return p.Scheme + "://" + net.JoinHostPort(p.Host, strconv.Itoa(int(p.Port)))
}
