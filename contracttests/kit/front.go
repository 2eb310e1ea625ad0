package kit

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// front puts proxies before the provider, and makes the profile that leads there.
//
// Faults hit the API alone: people sign in at the provider itself. An https
// provider is met through proxies that speak TLS on both sides, whose certificates
// the profile trusts in place of the system's; so its token endpoints get proxies
// as well, which change nothing.
func (h *house) front(ctx context.Context, provider string, sign *credentials.Provider) (p transport.Profile, err error) {
	ctx = context.WithoutCancel(ctx)
	origin, prefix, err := splitURL(h.facts.URL)
	if err != nil {
		return p, err
	}
	h.prefix = prefix
	if origin.Scheme != "https" {
		if h.proxy, err = fault.Start(ctx, origin.String()); err != nil {
			return p, err
		}
		p = transport.Loopback(provider, h.base())
		p.AuthOrigins = []string{origin.String()}
		p.Private = append(p.Private, transport.Loopback(provider, origin.String()).Private...)
		return p, nil
	}
	if h.proxy, err = fault.StartTLS(ctx, origin.String(), h.facts.Roots); err != nil {
		return p, err
	}
	p = transport.Loopback(provider, h.base())
	p.Roots = slices.Clone(h.proxy.Roots())
	if sign.Discover {
		return p, errors.New("name the endpoints of an https provider: what a discovery answers leads past the proxies")
	}
	for _, endpoint := range []*string{&sign.TokenURL, &sign.RevocationURL, &sign.DeviceURL, &sign.InstallationURL} {
		if *endpoint == "" {
			continue
		}
		at, rest, err := splitURL(*endpoint)
		if err != nil {
			return p, err
		}
		quiet, err := fault.StartTLS(ctx, at.String(), h.facts.Roots)
		if err != nil {
			return p, err
		}
		h.quiet = append(h.quiet, quiet)
		*endpoint = quiet.URL() + rest
		p.AuthOrigins = append(p.AuthOrigins, quiet.URL())
		p.Private = append(p.Private, transport.Loopback(provider, quiet.URL()).Private...)
		p.Roots = append(p.Roots, quiet.Roots()...)
	}
	return p, nil
}

// base is where the profile leads: the proxy, and what stands behind the
// provider's host.
func (h *house) base() string { return h.proxy.URL() + h.prefix }

// splitURL is an origin and the path behind it.
func splitURL(text string) (origin *url.URL, path string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, "", errors.New("the provider's URLs are a scheme, a host and a path")
	}
	if path = u.EscapedPath(); path == "/" {
		path = ""
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, path, nil
}
