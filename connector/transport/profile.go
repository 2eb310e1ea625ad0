package transport

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Profiles finds endpoint profiles by name. It is asked on every call, so a
// changed profile takes effect at once; it must be cheap and safe for
// concurrent use.
type Profiles interface {
	Profile(name string) (Profile, error)
}

// Static is a fixed set of profiles by name.
type Static map[string]Profile

// Profile returns the profile of that name, or EGRESS_BLOCKED.
func (s Static) Profile(name string) (Profile, error) {
	p, ok := s[name]
	if !ok {
		return Profile{}, connector.Fail(connector.CodeEgressBlocked, "there is no endpoint profile of that name")
	}
	return p, nil
}

// A Profile is where one provider instance lives and how it may be used. It is
// an administrator's word: nothing in it may come from a model or a provider.
type Profile struct {
	Name string // empty: the name it was asked for by
	// BaseURL is https://host[:port][/prefix]. Plain http is for hosts whose
	// only address is a loopback exception.
	BaseURL string
	// AuthOrigins are further origins, exact, that Exchange may use.
	AuthOrigins []string
	// Private opens addresses that are refused otherwise.
	Private []PrivateException
	// Roots are PEM certificates that are trusted instead of the system's.
	// Empty: the system's. There is no way to switch verification off.
	Roots []byte
	// Proxy is http://[user:password@]host[:port] of an egress proxy that every
	// request of this profile is tunnelled through with CONNECT. Empty: none;
	// the environment is never asked. Its host and port need an entry in
	// Private. The proxy resolves the provider's name, so the address check
	// of this package is about the proxy alone and the proxy has to refuse
	// private targets. Holds a password: not to be shown or logged.
	Proxy string
	// HTTP2 lets reads use HTTP/2 if the server offers it. Writes and exchanges
	// stay on HTTP/1.1, where it is provable whether a request was written.
	HTTP2 bool
	// RequestIDHeader is where the provider puts its id of a request. Empty:
	// X-Request-Id.
	RequestIDHeader string
	// RefusesBeforeProcessing are statuses (408, 429, 5xx) by which this
	// provider proves that it did not process a write. Empty: none.
	RefusesBeforeProcessing []int
	Limits                  Limits
}

// A PrivateException lets one host of one profile resolve into one private or
// loopback range on one port. It can't open public space (that needs none) or
// the addresses of metadata services.
type PrivateException struct {
	Host   string
	Prefix netip.Prefix
	Port   uint16
}

// Limits bound one profile. Zero is the default in brackets; there is no value
// for unlimited.
type Limits struct {
	HeaderBytes    int64         // of an answer [64 KiB]
	BodyBytes      int64         // of a 2xx body, decoded; also of its wire form [4 MiB]
	ErrorBodyBytes int64         // kept of any other body [64 KiB]
	Dial           time.Duration // per address [5 s]
	TLS            time.Duration // handshake [5 s]
	ResponseHeader time.Duration // from the last byte sent [15 s]
	Read           time.Duration // a whole read, waits included [30 s]
	Write          time.Duration // a whole write [20 s]
	Exchange       time.Duration // a whole exchange [15 s]
	Concurrency    int           // calls at once, per connection [4]
	Queue          int           // calls waiting, per connection [16]
	Rate           float64       // calls a second, per connection [10]
	Burst          int           // of Rate [20]
	RetryBudget    int           // tokens, per connection; see retry.go [50]
}

func (l Limits) filled() Limits {
	fill(&l.HeaderBytes, 64<<10)
	fill(&l.BodyBytes, 4<<20)
	fill(&l.ErrorBodyBytes, 64<<10)
	fill(&l.Dial, 5*time.Second)
	fill(&l.TLS, 5*time.Second)
	fill(&l.ResponseHeader, 15*time.Second)
	fill(&l.Read, 30*time.Second)
	fill(&l.Write, 20*time.Second)
	fill(&l.Exchange, 15*time.Second)
	fill(&l.Concurrency, 4)
	fill(&l.Queue, 16)
	fill(&l.Rate, 10)
	fill(&l.Burst, 20)
	fill(&l.RetryBudget, 50)
	return l
}

func fill[T comparable](v *T, standard T) {
	var zero T
	if *v == zero {
		*v = standard
	}
}

// Validate reports everything that is wrong with a profile at once, or nil.
func (p Profile) Validate() error {
	_, err := p.parse()
	return err
}

// places are the parsed addresses of a profile.
type places struct {
	base   origin
	prefix string // of every path; no trailing slash
	auth   []origin

	proxy    origin
	proxyURL *url.URL // nil: no proxy
}

func (p Profile) parse() (places, error) {
	var faults []error
	fault := func(field string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", field, err))
		}
	}
	var at places
	base, rest, err := parseOrigin(p.BaseURL, p.Private)
	fault("base URL", err)
	at.base, at.prefix = base, strings.TrimSuffix(rest, "/")
	if err == nil && at.prefix != "" {
		fault("base URL", cleanPath(at.prefix))
	}
	for i, raw := range p.AuthOrigins {
		o, rest, err := parseOrigin(raw, p.Private)
		if err == nil && rest != "" {
			err = errors.New("an origin has no path")
		}
		fault(fmt.Sprintf("authorization origin %d", i), err)
		at.auth = append(at.auth, o)
	}
	if p.Proxy != "" {
		at.proxy, at.proxyURL, err = parseProxy(p.Proxy, p.Private)
		fault("proxy", err)
		for _, o := range append([]origin{at.base}, at.auth...) {
			if o.host != "" {
				fault("proxy", o.throughProxy(p.Private))
			}
		}
	}
	for i, e := range p.Private {
		fault(fmt.Sprintf("private exception %d", i), e.validate())
	}
	if len(p.Roots) > 0 && !x509.NewCertPool().AppendCertsFromPEM(p.Roots) {
		fault("roots", errors.New("no certificate in PEM form"))
	}
	if p.RequestIDHeader != "" && !httpguts.ValidHeaderFieldName(p.RequestIDHeader) {
		fault("request id header", errors.New("not a header name"))
	}
	for _, status := range p.RefusesBeforeProcessing {
		if status != 408 && status != 429 && (status < 500 || status > 599) {
			fault("statuses that refuse before processing", fmt.Errorf("%d is not 408, 429 or a 5xx", status))
		}
	}
	fault("limits", p.Limits.validate())
	return at, errors.Join(faults...)
}

func (l Limits) validate() error {
	switch {
	case min(l.HeaderBytes, l.BodyBytes, l.ErrorBodyBytes) < 0,
		min(l.Dial, l.TLS, l.ResponseHeader, l.Read, l.Write, l.Exchange) < 0,
		min(l.Concurrency, l.Queue, l.Burst, l.RetryBudget) < 0, !(l.Rate >= 0):
		return errors.New("a limit is negative")
	case l.HeaderBytes > 1<<20 || l.BodyBytes > 64<<20 || l.ErrorBodyBytes > 1<<20:
		return errors.New("a size is over 1 MiB for headers and error bodies, or 64 MiB for bodies")
	case max(l.Dial, l.TLS, l.ResponseHeader, l.Read, l.Write, l.Exchange) > 10*time.Minute:
		return errors.New("a time is over 10 minutes")
	case l.Concurrency > 1024 || l.Queue > 1<<16:
		return errors.New("more than 1024 calls at once or 65536 waiting")
	}
	return nil
}

// equal spares rebuilding pools for a profile that did not change.
func (p Profile) equal(q Profile) bool {
	return p.Name == q.Name && p.BaseURL == q.BaseURL && p.Proxy == q.Proxy && p.HTTP2 == q.HTTP2 && p.RequestIDHeader == q.RequestIDHeader &&
		p.Limits == q.Limits && slices.Equal(p.AuthOrigins, q.AuthOrigins) && slices.Equal(p.Private, q.Private) &&
		slices.Equal(p.Roots, q.Roots) && slices.Equal(p.RefusesBeforeProcessing, q.RefusesBeforeProcessing)
}

// Loopback is a profile for a server on this machine, such as the sandbox: its
// base URL names a loopback host with a port. It opens that port and no other.
func Loopback(name, baseURL string) Profile {
	p := Profile{Name: name, BaseURL: baseURL}
	host, port := hostAndPort(baseURL)
	for _, prefix := range loopback {
		p.Private = append(p.Private, PrivateException{Host: host, Prefix: prefix, Port: port})
	}
	return p
}
