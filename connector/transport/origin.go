package transport

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// An origin is scheme, host and port, in the one spelling that is compared.
type origin struct {
	scheme  string
	host    string // lower-case ASCII; no brackets around an IPv6 address
	port    uint16
	urlHost string // as in url.URL.Host: a default port is left out
	dial    string // as net.Dialer gets it
}

func (o origin) String() string { return o.scheme + "://" + o.urlHost }

// Address ranges that an exception may lie in. All else is either public, and
// needs no exception, or nothing a provider lives at.
var (
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	private  = append(slices.Clone(loopback),
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("fc00::/7"))
)

func within(p netip.Prefix, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool {
		return r.Contains(p.Addr()) && r.Bits() <= p.Bits()
	})
}

func (e PrivateException) validate() error {
	switch {
	case !e.Prefix.IsValid() || e.Prefix.Addr().Is4In6():
		return errors.New("not an address prefix")
	case !within(e.Prefix, private):
		return errors.New("outside the private and loopback ranges")
	case e.Port == 0:
		return errors.New("no port")
	}
	if _, err := netip.ParseAddr(e.Host); err == nil {
		return nil
	}
	return validHostname(e.Host)
}

// parseOrigin splits a profile's URL into its origin and path.
func parseOrigin(raw string, exceptions []PrivateException) (origin, string, error) {
	o, rest, excepted, err := readOrigin(raw, exceptions)
	if err != nil {
		return origin{}, "", err
	}
	if o.scheme == "http" && (len(excepted) == 0 || slices.ContainsFunc(excepted, func(e PrivateException) bool {
		return !within(e.Prefix, loopback)
	})) {
		return origin{}, "", errors.New("plain http is for loopback exceptions only")
	}
	return o, rest, nil
}

// readOrigin also returns the exceptions that are about this host and port.
// Only spellings that every parser reads alike pass.
func readOrigin(raw string, exceptions []PrivateException) (o origin, rest string, excepted []PrivateException, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || !printable(raw): // the cause would quote the URL
		return origin{}, "", nil, errors.New("not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return origin{}, "", nil, errors.New("the scheme is not https")
	case u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return origin{}, "", nil, errors.New("only scheme, host, port and path may be given")
	}
	o = origin{scheme: u.Scheme, host: u.Hostname(), port: 443}
	if u.Scheme == "http" {
		o.port = 80
	}
	standard := o.port
	if i := strings.LastIndexByte(u.Host, ':'); i > strings.LastIndexByte(u.Host, ']') {
		text := u.Host[i+1:]
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
			return origin{}, "", nil, errors.New("the port is not a plain number from 1 to 65535")
		}
		o.port = uint16(n)
	}
	excepted = slices.DeleteFunc(slices.Clone(exceptions), func(e PrivateException) bool {
		return e.Host != o.host || e.Port != o.port
	})
	if addr, err := netip.ParseAddr(o.host); err == nil {
		// A literal has no name that could be verified or allowed; it is only
		// let in where an administrator spelled out the address range as well.
		if len(excepted) == 0 || addr.Zone() != "" || addr.Is4In6() || addr.String() != o.host {
			return origin{}, "", nil, errors.New("an address instead of a name needs a private exception")
		}
	} else if err := validHostname(o.host); err != nil {
		return origin{}, "", nil, err
	} else if !strings.Contains(o.host, ".") && len(excepted) == 0 {
		return origin{}, "", nil, errors.New("a name without a dot needs a private exception")
	}
	o.dial = net.JoinHostPort(o.host, strconv.Itoa(int(o.port)))
	o.urlHost = o.dial
	if o.port == standard {
		o.urlHost = strings.TrimSuffix(o.dial, ":"+strconv.Itoa(int(standard)))
	}
	return o, u.EscapedPath(), excepted, nil
}

// validHostname accepts lower-case ASCII names only. A numeric last label is
// refused because some resolvers read 0x7f.1 and 2130706433 as addresses; IDNA
// mapping is refused because it turns full-width digits into real ones.
func validHostname(h string) error {
	if ascii, err := idna.Lookup.ToASCII(h); err != nil || ascii != h || len(h) > 253 {
		return errors.New("the host is not a lower-case ASCII name")
	}
	labels := strings.Split(h, ".")
	for _, label := range labels {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return errors.New("the host is not a lower-case ASCII name")
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return errors.New("the host is written like a number")
	}
	return nil
}

// hostAndPort reads what [Loopback] needs; faults are left to Validate.
func hostAndPort(raw string) (string, uint16) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", 0
	}
	port, _ := strconv.ParseUint(u.Port(), 10, 16)
	if u.Port() == "" {
		port = map[string]uint64{"http": 80, "https": 443}[u.Scheme]
	}
	return u.Hostname(), uint16(port)
}
