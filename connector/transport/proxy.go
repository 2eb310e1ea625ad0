package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// An egress proxy is reached in plain HTTP and asked to CONNECT. What passes
// through it is TLS with the provider, so it can neither read nor answer for
// one. The dial guard sees the proxy's address instead of the provider's:
// whether a name leads to a private address is then the proxy's to check, and
// ours is what can be judged by name.

// parseProxy reads http://[user:password@]host[:port]. Texts of errors quote
// nothing of it.
func parseProxy(raw string, exceptions []PrivateException) (origin, *url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" {
		return origin{}, nil, errors.New("not an http URL")
	}
	bare := *u
	bare.User = nil
	o, rest, excepted, err := readOrigin(bare.String(), exceptions)
	switch {
	case err != nil:
		return origin{}, nil, err
	case rest != "":
		return origin{}, nil, errors.New("a proxy has no path")
	case len(excepted) == 0:
		// Its own password and the names of all targets pass in clear.
		return origin{}, nil, errors.New("a proxy needs a private exception for its host and port")
	}
	bare.Host, bare.User = o.dial, u.User
	return o, &bare, nil
}

// privateSuffixes are the ends of names that mean a different host on every
// network (RFC 6761, 6762, 8375; .internal by ICANN; the rest by habit).
var privateSuffixes = []string{".localhost", ".local", ".internal", ".home.arpa", ".localdomain", ".lan", ".corp", ".home", ".intranet", ".private", ".onion"}

// throughProxy says why a target may not be asked of a proxy.
func (o origin) throughProxy(exceptions []PrivateException) error {
	if o.scheme != "https" {
		return errors.New("only https passes through a proxy")
	}
	if _, err := netip.ParseAddr(o.host); err == nil {
		return errors.New("an address instead of a name can't be asked of a proxy")
	}
	private := !strings.Contains(o.host, ".") || slices.ContainsFunc(privateSuffixes, func(s string) bool { return strings.HasSuffix(o.host, s) })
	if private && !slices.ContainsFunc(exceptions, func(e PrivateException) bool { return e.Host == o.host && e.Port == o.port }) {
		return errors.New("a private name behind a proxy needs a private exception")
	}
	return nil
}

// tunnel sends everything of a pool through the profile's proxy, if it has one.
// net/http writes the proxy's credentials into the CONNECT request alone.
func (e *endpoint) tunnel(t *http.Transport) {
	if e.proxyURL == nil {
		return
	}
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		if !slices.ContainsFunc(append([]origin{e.base}, e.auth...), func(o origin) bool {
			return o.scheme == r.URL.Scheme && o.urlHost == r.URL.Host
		}) {
			return nil, blocked("another origin than the profile's")
		}
		return e.proxyURL, nil
	}
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			return &errTunnel{resp.StatusCode}
		}
		return nil
	}
}

// errTunnel is a proxy's answer other than 200. Nothing reached the provider.
type errTunnel struct{ status int }

func (e *errTunnel) Error() string {
	return fmt.Sprintf("the egress proxy answered with status %d", e.status)
}

// passing answers say something about the moment, all others about the set-up.
func (e *errTunnel) passing() bool {
	return e.status >= 500 || e.status == http.StatusRequestTimeout || e.status == http.StatusTooManyRequests
}

func (e *errTunnel) coded() *connector.Error {
	out := &connector.Error{Code: connector.CodeEgressBlocked, Message: "the egress proxy refuses the profile's host", Err: e}
	switch {
	case e.passing():
		out.Code, out.Message = connector.CodeUnavailable, "the egress proxy could not reach the provider"
	case e.status == http.StatusProxyAuthRequired:
		out.Message = "the egress proxy does not accept the profile's credentials for it"
	}
	return out
}
