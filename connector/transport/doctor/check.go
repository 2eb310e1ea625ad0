package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// Options are what a check needs beside the profile. The zero value is right
// where the transport runs with its zero values.
type Options struct {
	NAT64    []netip.Prefix // as in transport.Config
	Resolver *net.Resolver  // nil: the system's
	Environ  []string       // as os.Environ gives it; nil: that
}

const (
	maxAddresses = 16 // of one host; more are not dialled
	soon         = 21 * 24 * time.Hour
	skew         = 60 * time.Second // what servers forgive in times of tokens and signatures
)

// Check examines one profile. It takes at most the profile's own times, step
// after step, and stops early when ctx ends.
func Check(ctx context.Context, p transport.Profile, o Options) Report {
	c := &check{report: Report{Profile: p.Name, Items: []Item{}}}
	in, err := transport.Inspect(p, o.NAT64, o.Resolver)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			c.add("profile", Refused, strings.TrimSpace(line), "correct the profile; drawbridge profiles check names the line")
		}
		return c.report
	}
	c.add("profile", OK, "the profile is valid", "")
	c.roots(p)
	c.environment(p, o.Environ)
	c.limits(p.Limits.Effective())
	reachable := true // the base URL
	for _, place := range in.Places() {
		c.where = place.String()
		if !c.place(ctx, place) && place.Role != "auth_origin" {
			reachable = false
		}
		if place.Role == "base_url" {
			if reachable {
				c.ask(ctx, in, place)
			} else {
				c.add("http", Warning, "not asked, because an earlier step broke", "")
			}
		}
	}
	return c.report
}

type check struct {
	report Report
	where  string
}

func (c *check) add(step string, s Status, text, next string) {
	c.report.Items = append(c.report.Items, Item{step, c.where, s, text, next})
}

// place goes from a name to a verified connection, and says whether it got there.
func (c *check) place(ctx context.Context, p transport.Place) bool {
	if p.Proxied {
		c.add("resolve", OK, "the profile's proxy looks this name up and must refuse private addresses itself", "")
		return true
	}
	addrs, err := p.Resolve(ctx)
	if err != nil || len(addrs) == 0 {
		c.add("resolve", Failed, noName(err), "check the host's name, and the name servers of this machine")
		return false
	}
	c.add("resolve", OK, fmt.Sprintf("the name has %d %s", len(addrs), plural(len(addrs), "address", "addresses")), "")
	var open []netip.Addr
	refusals := len(c.report.Items)
	for _, a := range addrs {
		why := p.Judge(ctx, a)
		switch {
		case why == nil:
			open = append(open, a)
			c.add("address", OK, a.Unmap().String()+" may be dialled", "")
		default:
			c.add("address", Refused, a.Unmap().String()+": "+why.Error(), exceptionFor(p, a))
		}
	}
	if len(open) == 0 {
		return false
	}
	// One address that may be dialled is enough for a call.
	for i := refusals; i < len(c.report.Items); i++ {
		if c.report.Items[i].Status == Refused {
			c.report.Items[i].Status = Warning
		}
	}
	good := false
	bad := len(c.report.Items)
	for _, a := range open[:min(len(open), maxAddresses)] {
		if c.connect(ctx, p, a) {
			good = true
		}
	}
	for i := bad; good && i < len(c.report.Items); i++ {
		if c.report.Items[i].Step == "connect" && c.report.Items[i].Status == Failed {
			c.report.Items[i].Status = Warning
		}
	}
	return good
}

func exceptionFor(p transport.Place, a netip.Addr) string {
	a = a.Unmap()
	if a.IsPrivate() || a.IsLoopback() || netip.MustParsePrefix("100.64.0.0/10").Contains(a) {
		return fmt.Sprintf("if the host is meant to be there, add to private: host %s, prefix %s, port %d",
			p.Host, netip.PrefixFrom(a, a.BitLen()), p.Port)
	}
	return "find out why the name leads there; no setting opens this address"
}

func (c *check) connect(ctx context.Context, p transport.Place, a netip.Addr) bool {
	start := time.Now()
	conn, err := p.Dial(ctx, a)
	if err != nil {
		c.add("connect", Failed, fmt.Sprintf("%s port %d: %s", a.Unmap(), p.Port, noConnection(err)),
			"check that the service runs there and that no firewall is in between")
		return false
	}
	defer conn.Close()
	c.add("connect", OK, fmt.Sprintf("%s port %d answered in %s", a.Unmap(), p.Port, time.Since(start).Round(time.Millisecond)), "")
	if p.Scheme != "https" {
		if p.Role != "proxy" {
			c.add("tls", Warning, "plain http, which profiles allow on this machine only", "")
		}
		return true
	}
	return c.tls(ctx, p, conn)
}

// ask sends the one request.
func (c *check) ask(ctx context.Context, in *transport.Inspection, p transport.Place) {
	seen, err := in.Ask(ctx)
	if err != nil {
		next := "try again; then ask whoever runs the service"
		if p.Proxied {
			next = "check the proxy's rules and the certificate of the service behind it"
		}
		c.add("http", Failed, "no answer to a request without credentials: "+err.Error(), next)
		return
	}
	if p.Proxied && seen.TLS != nil {
		c.certificate(seen.TLS.PeerCertificates)
	}
	text := fmt.Sprintf("a request without credentials was answered with a status of class %dxx", seen.Status/100)
	switch {
	case seen.Status >= 500:
		c.add("http", Warning, text, "the service has trouble of its own; look at its status page")
	case seen.Status >= 300 && seen.Status < 400:
		c.add("http", OK, text+"; redirects of this path are not followed here", "")
	default:
		c.add("http", OK, text, "")
	}
	if seen.Date.IsZero() {
		c.add("clock", Warning, "the server does not say what time it is", "check this machine's clock by other means")
		return
	}
	// Date has whole seconds, so the real time is half a second later on average.
	off := seen.At.Sub(seen.Date.Add(500 * time.Millisecond)).Round(time.Second)
	if off.Abs() > skew {
		c.add("clock", Warning, fmt.Sprintf("this machine's clock and the server's differ by %s", off.Abs()),
			"set the clock by NTP: tokens and signatures with times will be refused")
		return
	}
	c.add("clock", OK, "this machine's clock agrees with the server's to within a minute", "")
}

// environment names variables that are not asked, and those that are. Values
// may hold passwords and are not shown.
func (c *check) environment(p transport.Profile, environ []string) {
	if environ == nil {
		environ = os.Environ()
	}
	var proxies, active []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch upper := strings.ToUpper(name); {
		case value == "":
		case slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}, upper):
			proxies = append(proxies, name)
		case name == "GODEBUG", len(p.Roots) == 0 && (name == "SSL_CERT_FILE" || name == "SSL_CERT_DIR"):
			active = append(active, name)
		}
	}
	slices.Sort(proxies)
	slices.Sort(active)
	if len(proxies) > 0 {
		next := "nothing, unless the network needs a proxy: then name it in the profile"
		if p.Proxy != "" {
			next = "nothing: the profile names its own proxy"
		}
		c.add("environment", Warning, "set, and ignored: "+strings.Join(proxies, ", "), next)
	}
	if len(active) > 0 {
		c.add("environment", Warning, "set, and changes how names or certificates are checked: "+strings.Join(active, ", "),
			"make sure that an administrator meant it")
	}
	if len(proxies)+len(active) == 0 {
		c.add("environment", OK, "no variable that is ignored or changes a check", "")
	}
}

func (c *check) limits(l transport.Limits) {
	c.add("limits", OK, fmt.Sprintf("read %s, write %s, dial %s, tls %s; per connection %d at once, %d waiting, %g a second; bodies up to %d bytes",
		l.Read, l.Write, l.Dial, l.TLS, l.Concurrency, l.Queue, l.Rate, l.BodyBytes), "")
	if l.Dial+l.TLS >= min(l.Read, l.Write) {
		c.add("limits", Warning, "connecting alone may use up the whole time of a call", "make read and write longer than dial and tls together")
	}
}

func noName(err error) string {
	var dns *net.DNSError
	switch {
	case err == nil:
		return "the name has no address"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no such name"
	case errors.As(err, &dns) && dns.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		return "the name servers did not answer in time"
	}
	return "the name could not be looked up"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
