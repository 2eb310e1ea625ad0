package profiles

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// anywhere is a valid base URL for asking the transport about something else.
const anywhere = "https://host.example"

// An exception is an entry of private. Sound: nothing is wrong with it alone.
type exception struct {
	transport.PrivateException
	node  strictjson.Node
	at    string
	sound bool
}

func (r reader) exception(n strictjson.Node, at string) exception {
	e := exception{node: n, at: at}
	before := len(r.Faults())
	r.Object(n, at, map[string]strictjson.Field{
		"host": {Read: func(n strictjson.Node, at string) {
			r.Text(&e.Host).Read(n, at)
			if strings.Contains(e.Host, "*") {
				r.Fault(n, at, "must be one host; there are no wildcards")
				e.Host = ""
			} else if e.Host != "" {
				r.ask(n, at, transport.Profile{BaseURL: anywhere, Private: []transport.PrivateException{
					{Host: e.Host, Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 443}}})
			}
		}},
		"prefix": {Read: func(n strictjson.Node, at string) { e.Prefix = r.prefix(n, at) }},
		"port":   whole(r, &e.Port, 1, 65535),
	})
	e.sound = len(r.Faults()) == before
	return e
}

// prefix refuses ranges that nobody means: a company has no /7.
func (r reader) prefix(n strictjson.Node, at string) netip.Prefix {
	p, err := netip.ParsePrefix(n.Text)
	switch {
	case n.Kind != '"' || err != nil:
		r.Fault(n, at, "must be an address range such as 10.20.0.0/16")
	case p != p.Masked():
		r.Fault(n, at, "has address bits behind its length")
	case p.Addr().Is4() && p.Bits() < 8, p.Addr().Is6() && p.Bits() < 16:
		r.Fault(n, at, "is wider than an IPv4 /8 or an IPv6 /16")
	default:
		r.ask(n, at, transport.Profile{BaseURL: anywhere, Private: []transport.PrivateException{{Host: "host.example", Prefix: p, Port: 443}}})
		return p
	}
	return netip.Prefix{}
}

// ask reports the transport's objection to a profile as one to a node.
func (r reader) ask(n strictjson.Node, at string, p transport.Profile) (ok bool) {
	why := reason(p)
	if why != "" {
		r.Fault(n, at, "%s", "is refused: "+why)
	}
	return why == ""
}

// places judges the URLs of a profile with its exceptions, and the exceptions
// with its URLs.
func (r reader) places(p *transport.Profile, base place, auth []place, proxy place, credentials string, exceptions []exception) {
	sound := !slices.ContainsFunc(exceptions, func(e exception) bool { return !e.sound })
	for i, e := range exceptions {
		if e.sound && slices.ContainsFunc(exceptions[:i], func(o exception) bool { return o.PrivateException == e.PrivateException }) {
			r.Fault(e.node, e.at, "is there twice")
		}
		p.Private = append(p.Private, e.PrivateException)
	}
	// With a broken exception at hand, an objection to a URL may be for want of
	// it. Then every URL is judged as if it had one.
	private := func(raw string) []transport.PrivateException {
		if sound {
			return p.Private
		}
		return transport.Loopback("", raw).Private
	}
	valid := true
	reached := map[string]bool{} // host and port, with a space between
	judge := func(o place, probe transport.Profile) {
		switch {
		case o.url == "":
			valid = false
			return
		case strings.Contains(o.url, "*"):
			r.Fault(o.node, o.at, "must name one host; there are no wildcards")
			valid = false
			return
		}
		if !r.ask(o.node, o.at, probe) {
			valid = false
			return
		}
		key := hostPort(o.url)
		if reached[key] {
			r.Fault(o.node, o.at, "is a host and port that the profile names already")
		}
		reached[key] = true
	}
	p.BaseURL = base.url
	judge(base, transport.Profile{BaseURL: base.url, Private: private(base.url)})
	for _, o := range auth {
		judge(o, transport.Profile{BaseURL: anywhere, AuthOrigins: []string{o.url}, Private: private(o.url)})
		p.AuthOrigins = append(p.AuthOrigins, o.url)
	}
	if proxy.node.Kind != 0 {
		if u, err := url.Parse(proxy.url); err == nil && u.User != nil {
			r.Fault(proxy.node, proxy.at, "must not hold credentials; name a file in proxy_credentials_file")
			valid = false
		} else if valid { // whether a proxy may be used depends on all URLs
			q := transport.Profile{BaseURL: p.BaseURL, AuthOrigins: p.AuthOrigins, Proxy: proxy.url, Private: p.Private}
			if !sound {
				q = transport.Profile{BaseURL: anywhere, Proxy: proxy.url, Private: private(proxy.url)}
			}
			judge(proxy, q)
		}
		p.Proxy = withCredentials(proxy.url, credentials)
	}
	for _, e := range exceptions {
		if e.sound && valid && !reached[e.Host+" "+strconv.Itoa(int(e.Port))] {
			r.Fault(e.node, e.at, "is for a host and port that the profile does not name")
		}
	}
}

// hostPort of a URL that the transport accepts.
func hostPort(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Hostname() + " " + port
}

func withCredentials(proxy, credentials string) string {
	u, err := url.Parse(proxy)
	if err != nil || credentials == "" {
		return proxy
	}
	user, password, _ := strings.Cut(credentials, ":")
	u.User = url.UserPassword(user, password)
	return u.String()
}
