package transport

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// metadata services hand out credentials to whoever can reach them. No
// exception opens them; 168.63.129.16 is in public space.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("fd00:ec2::254/128"),
	netip.MustParsePrefix("fd20:ce::254/128"),
}

// A guard decides about the address of a socket for one origin of one profile.
type guard struct {
	port    uint16
	private []netip.Prefix // the exceptions of exactly this host and port
	only    bool           // nothing but the exceptions: plain http
	nat64   []netip.Prefix
	public  *ssrf.Guardian
	own     func() ([]net.Addr, error)
}

func newGuard(o origin, exceptions []PrivateException, nat64 []netip.Prefix) *guard {
	g := &guard{port: o.port, only: o.scheme == "http", nat64: nat64, own: net.InterfaceAddrs}
	for _, e := range exceptions {
		if e.Host == o.host && e.Port == o.port {
			g.private = append(g.private, e.Prefix.Masked())
		}
	}
	g.public = ssrf.New(ssrf.WithPorts(o.port), ssrf.WithNetworks("tcp4", "tcp6"),
		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))
	return g
}

// control runs between the resolver and connect, once for each address that
// the dialer tries, and sees what the kernel will see.
func (g *guard) control(_ context.Context, network, address string, raw syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || ap.Port() != g.port || ap.Addr().Zone() != "" {
		return blocked("an address that could not be checked")
	}
	// A mapped address reaches the IPv4 host, so it is judged as that.
	addr := ap.Addr().Unmap()
	if g.isMetadata(addr) {
		return blocked("the host's address is a metadata service")
	}
	if contains(g.private, addr) {
		return nil
	}
	if g.only {
		return blocked("the host's address is not the loopback exception of this profile")
	}
	if err := g.public.Safe(network, netip.AddrPortFrom(addr, ap.Port()).String(), raw); err != nil {
		return blocked("the host's address is not public")
	}
	if v4, ok := g.embedded(addr); ok && g.public.SafeAddr(v4) != nil {
		return blocked("the host's address leads to one that is not public")
	}
	// A hairpin to a public address of this machine reaches services that are
	// only meant for neighbours.
	own, err := g.own()
	if err != nil || slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == addr
	}) {
		return blocked("the host's address is this machine's own")
	}
	return nil
}

func (g *guard) isMetadata(addr netip.Addr) bool {
	if v4, ok := g.embedded(addr); ok {
		addr = v4
	}
	return contains(metadata, addr)
}

// embedded decodes RFC 6052 addresses of the operator's own /96 prefixes.
func (g *guard) embedded(addr netip.Addr) (netip.Addr, bool) {
	if !contains(g.nat64, addr) {
		return netip.Addr{}, false
	}
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// dialer connects to the origins of one profile, each with its own guard, so
// that an exception for one host does not open anything for another.
func (e *endpoint) dialer(nat64 []netip.Prefix, resolver *net.Resolver) func(context.Context, string, string) (net.Conn, error) {
	dialers := map[string]*net.Dialer{}
	targets := append([]origin{e.base}, e.auth...)
	if e.proxyURL != nil {
		targets = []origin{e.proxy} // nothing goes around it
	}
	for _, o := range targets {
		dialers[o.dial] = &net.Dialer{
			Timeout:        e.limits.Dial,
			KeepAlive:      0, // the system's default interval
			Resolver:       resolver,
			ControlContext: newGuard(o, e.profile.Private, nat64).control,
		}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d, ok := dialers[strings.ToLower(address)]
		if !ok {
			return nil, blocked("another origin than the profile's")
		}
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if e.proxyURL != nil {
			return watch(c).hurry(e.limits.ResponseHeader), nil
		}
		return watch(c), nil
	}
}
